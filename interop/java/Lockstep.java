import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.Provider;
import java.security.SecureRandomSpi;
import java.security.Security;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.zip.CRC32;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.Group;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard;
import org.apache.kafka.coordinator.group.GroupMetadataManager;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.classic.ClassicGroup;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.MemberAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Apache Kafka's own group coordinator in virtual time: one shard, a JSON object a line in, one a line out.
 *
 * <p>In: {"op": ..., and what the operation takes}. Out: "answers" [[ticket, version's response, error]], "records"
 * [[key, value]] in base64 in the order in which they were written, "timers" deadlines by name, "tasks" how many
 * background tasks wait, "made" the member id that was generated for the sender, "failure" why a log could not be taken up.
 *
 * <p>Where Kafka leaves an order to a hash map, classic members are kept by id, so that both sides meet them alike.
 */
public class Lockstep {
    static final ObjectMapper JSON = new ObjectMapper();
    static final JsonNodeFactory NODES = JsonNodeFactory.instance;
    static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();
    static final short DELETE_VERSION = 2;

    /**
     * Deals partitions by who is in alone, an instance under any id, so that both sides find the same target whenever
     * they compute one.
     */
    public static class Scripted implements ConsumerGroupPartitionAssignor {
        @Override public String name() { return "scripted"; }

        long salt(Set<String> who) {
            CRC32 sum = new CRC32();
            sum.update(String.join(",", who).getBytes(StandardCharsets.UTF_8));
            return sum.getValue();
        }

        @Override public GroupAssignment assign(GroupSpec group, SubscribedTopicDescriber topics) {
            TreeMap<String, Map<Uuid, Set<Integer>>> targets = new TreeMap<>();
            TreeMap<String, List<String>> takers = new TreeMap<>();
            Map<String, Uuid> ids = new HashMap<>();
            TreeMap<String, String> who = new TreeMap<>();
            for (String member : group.memberIds())
                who.put(group.memberSubscription(member).instanceId().orElse(member), member);
            for (String member : who.values()) {
                targets.put(member, new HashMap<>());
                for (Uuid topic : group.memberSubscription(member).subscribedTopicIds()) {
                    ids.put(topic.toString(), topic);
                    takers.computeIfAbsent(topic.toString(), each -> new ArrayList<>()).add(member);
                }
            }
            long salt = salt(who.keySet());
            takers.forEach((name, members) -> {
                Uuid topic = ids.get(name);
                for (int p = 0; p < topics.numPartitions(topic); p++) {
                    String member = members.get((int) ((p + salt) % members.size()));
                    targets.get(member).computeIfAbsent(topic, each -> new HashSet<>()).add(p);
                }
            });
            Map<String, MemberAssignment> found = new HashMap<>();
            targets.forEach((member, target) -> found.put(member, new MemberAssignmentImpl(target)));
            return new GroupAssignment(found);
        }
    }

    /** The same, turned by one. */
    public static class Other extends Scripted {
        @Override public String name() { return "other"; }
        @Override long salt(Set<String> who) { return super.salt(who) + 1; }
    }

    static final class Clock implements Time {
        long nowMs = 1_000_000;
        @Override public long milliseconds() { return nowMs; }
        @Override public long nanoseconds() { return nowMs * 1_000_000; }
        @Override public void sleep(long ms) { nowMs += ms; }
        @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    record Timeout(String key, long deadlineMs, CoordinatorTimer.TimeoutOperation<CoordinatorRecord> operation) { }

    /** Timers that fire by deadline and then by name. */
    final class Timers implements CoordinatorTimer<CoordinatorRecord> {
        private final Map<String, Timeout> byKey = new HashMap<>();
        private final TreeSet<Timeout> queue = new TreeSet<>(
            Comparator.comparingLong(Timeout::deadlineMs).thenComparing(Timeout::key));

        @Override public void schedule(String key, long delay, TimeUnit unit, boolean retry, long backoff,
                                       TimeoutOperation<CoordinatorRecord> operation) {
            cancel(key);
            if (key.equals("expire-group-metadata") || key.equals("group-size-counter")) return; // asked for by name
            Timeout timeout = new Timeout(key, clock.nowMs + unit.toMillis(delay), operation);
            byKey.put(key, timeout);
            queue.add(timeout);
        }

        @Override public void schedule(String key, long delay, TimeUnit unit, boolean retry,
                                       TimeoutOperation<CoordinatorRecord> operation) {
            schedule(key, delay, unit, retry, 500, operation);
        }

        @Override public void scheduleIfAbsent(String key, long delay, TimeUnit unit, boolean retry,
                                               TimeoutOperation<CoordinatorRecord> operation) {
            if (!byKey.containsKey(key)) schedule(key, delay, unit, retry, operation);
        }

        @Override public void cancel(String key) {
            Timeout timeout = byKey.remove(key);
            if (timeout != null) queue.remove(timeout);
        }

        @Override public boolean isScheduled(String key) { return byKey.containsKey(key); }

        Timeout due(long untilMs) {
            if (queue.isEmpty() || queue.first().deadlineMs > untilMs) return null;
            Timeout timeout = queue.pollFirst();
            byKey.remove(timeout.key);
            return timeout;
        }
    }

    /** Background tasks that run when they are told to. */
    static final class Tasks implements CoordinatorExecutor<CoordinatorRecord> {
        interface Task { CoordinatorResult<Void, CoordinatorRecord> run(); }
        private final Set<String> keys = new HashSet<>();
        private final Deque<Map.Entry<String, Task>> queue = new ArrayDeque<>();

        @Override public <R> boolean schedule(String key, TaskRunnable<R> task,
                                              TaskOperation<CoordinatorRecord, R> operation) {
            if (!keys.add(key)) return false;
            return queue.add(Map.entry(key, () -> {
                R result = null;
                Throwable failure = null;
                try {
                    result = task.run();
                } catch (Throwable thrown) {
                    failure = thrown;
                }
                return operation.onComplete(result, failure);
            }));
        }

        @Override public boolean isScheduled(String key) { return keys.contains(key); }
        @Override public void cancel(String key) { keys.remove(key); }
    }

    /** The ids that Kafka generates are drawn from the seed as well: a run can be repeated. */
    public static class SeededRandom extends SecureRandomSpi {
        static Random random = new Random(0);
        @Override protected void engineSetSeed(byte[] seed) { }
        @Override protected void engineNextBytes(byte[] bytes) { random.nextBytes(bytes); }
        @Override protected byte[] engineGenerateSeed(int count) { return new byte[count]; }
    }

    static final class Seeded extends Provider {
        Seeded() {
            super("seeded", "1", "ids from a seed");
            put("SecureRandom.seeded", SeededRandom.class.getName());
        }
    }

    final Clock clock = new Clock();
    final GroupCoordinatorMetrics metrics = new GroupCoordinatorMetrics();
    GroupCoordinatorConfig config;
    GroupConfigManager groupConfigs;
    MetadataImage image = MetadataImage.EMPTY;
    long imageVersion;
    Timers timers;
    Tasks tasks;
    GroupCoordinatorShard shard;
    GroupMetadataManager groups;
    long offset;
    Map<Integer, CompletableFuture<? extends Object>> waiting = new TreeMap<>();
    Map<Integer, Short> versions = new HashMap<>();
    ArrayNode answers, records;
    String made, failure;

    static Field field(Class<?> owner, String name) throws NoSuchFieldException {
        Field found = owner.getDeclaredField(name);
        found.setAccessible(true);
        return found;
    }

    static final Field MEMBERS, PENDING, MANAGER;
    static {
        try {
            MEMBERS = field(ClassicGroup.class, "members");
            PENDING = field(ClassicGroup.class, "pendingJoinMembers");
            MANAGER = field(GroupCoordinatorShard.class, "groupMetadataManager");
        } catch (NoSuchFieldException e) {
            throw new IllegalStateException(e);
        }
    }

    // -- a shard's life

    void open(JsonNode in) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        in.get("config").fields().forEachRemaining(entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        settings.put(GroupCoordinatorConfig.CONSUMER_GROUP_ASSIGNORS_CONFIG, List.of(Scripted.class.getName(), Other.class.getName()));
        config = GroupCoordinatorConfig.fromProps(settings);
        ShareGroupConfig shares = ShareGroupConfig.fromProps(Map.of());
        groupConfigs = new GroupConfigManager(new HashMap<>(config.extractGroupConfigMap(shares)), config, shares);
        clock.nowMs = in.get("now").asLong();
        SeededRandom.random = new Random(in.get("seed").asLong());
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (int broker = 0; broker < 4; broker++)
            delta.replay(new RegisterBrokerRecord().setBrokerId(broker).setRack("rack" + broker));
        image = delta.apply(new MetadataProvenance(++imageVersion, 0, 0L, true));
        load(NODES.arrayNode());
    }

    void load(JsonNode log) throws Exception {
        if (shard != null) shard.onUnloaded();
        collect();
        waiting.clear();
        timers = new Timers();
        tasks = new Tasks();
        LogContext context = new LogContext();
        shard = ((GroupCoordinatorShard.Builder) new GroupCoordinatorShard.Builder(config, groupConfigs)
            .withLogContext(context).withSnapshotRegistry(new SnapshotRegistry(context)).withTime(clock)
            .withTimer(timers).withExecutor(tasks).withCoordinatorMetrics(metrics)
            .withTopicPartition(new TopicPartition("__consumer_offsets", 0)))
            .withAuthorizerPlugin(Optional.empty()).build();
        groups = (GroupMetadataManager) MANAGER.get(shard);
        prepare();
        for (JsonNode each : log) {
            CoordinatorRecord record = SERDE.deserialize(bytes(each.get(0)), bytes(each.get(1)));
            try {
                shard.replay(offset++, -1, (short) -1, record);
            } catch (RuntimeException refused) {
                failure = refused.toString(); // a broker that meets this cannot serve the partition
            }
        }
        for (String id : groups.groupIds()) sort(id);
        shard.onLoaded(new KRaftCoordinatorMetadataImage(image));
    }

    /** Changes a coordinator that has no groups yet. */
    void prepare() throws Exception { }

    static ByteBuffer bytes(JsonNode text) {
        return text.isNull() ? null : ByteBuffer.wrap(Base64.getDecoder().decode(text.asText()));
    }

    Group group(String id) {
        try {
            return groups.group(id);
        } catch (Exception missing) {
            return null;
        }
    }

    @SuppressWarnings("unchecked")
    void sort(String id) throws Exception {
        if (group(id) instanceof ClassicGroup classic && !(MEMBERS.get(classic) instanceof TreeMap))
            MEMBERS.set(classic, new TreeMap<>((Map<String, Object>) MEMBERS.get(classic)));
    }

    @SuppressWarnings("unchecked")
    Set<String> memberIds(String id) throws Exception {
        Group group = group(id);
        Set<String> found = new TreeSet<>();
        if (group instanceof ClassicGroup classic) {
            found.addAll(((Map<String, Object>) MEMBERS.get(classic)).keySet());
            found.addAll((Set<String>) PENDING.get(classic));
        } else if (group instanceof ConsumerGroup consumer) {
            found.addAll(consumer.members().keySet());
        }
        return found;
    }

    // -- results

    void happen(CoordinatorResult<?, CoordinatorRecord> result) {
        for (CoordinatorRecord record : result.records()) {
            ArrayNode pair = records.addArray();
            byte[] value = SERDE.serializeValue(record);
            pair.add(Base64.getEncoder().encodeToString(SERDE.serializeKey(record)));
            if (value == null) pair.addNull(); else pair.add(Base64.getEncoder().encodeToString(value));
            if (result.replayRecords()) shard.replay(offset++, -1, (short) -1, record);
        }
        if (result.appendFuture() != null) result.appendFuture().complete(null);
    }

    void answer(int ticket, JsonNode response) { answers.addArray().add(ticket).add(response).addNull(); }

    void fail(int ticket, Throwable thrown) {
        Throwable cause = thrown instanceof CompletionException ? thrown.getCause() : thrown;
        answers.addArray().add(ticket).addNull().add(Errors.forException(cause).code());
    }

    void collect() {
        waiting.entrySet().removeIf(entry -> {
            if (!entry.getValue().isDone()) return false;
            Object response = entry.getValue().join();
            short version = versions.get(entry.getKey());
            answer(entry.getKey(), response instanceof JoinGroupResponseData join
                ? JoinGroupResponseDataJsonConverter.write(join, version)
                : SyncGroupResponseDataJsonConverter.write((SyncGroupResponseData) response, version));
            return true;
        });
    }

    // -- requests

    static RequestContext context(ApiKeys api, short version, String client) {
        return new RequestContext(new RequestHeader(api, version, client, 0), "1", InetAddress.getLoopbackAddress(),
            KafkaPrincipal.ANONYMOUS, ListenerName.forSecurityProtocol(SecurityProtocol.PLAINTEXT),
            SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
    }

    void request(String op, JsonNode in) throws Exception {
        short v = (short) in.get("version").asInt();
        int ticket = in.get("ticket").asInt();
        JsonNode q = in.get("request");
        String client = in.path("client").asText("c"), id = in.get("group").asText();
        boolean makesId = in.path("makes_id").asBoolean();
        Set<String> before = makesId ? memberIds(id) : Set.of();
        versions.put(ticket, v);
        try {
            switch (op) {
                case "join" -> {
                    var future = new CompletableFuture<JoinGroupResponseData>();
                    waiting.put(ticket, future);
                    happen(shard.classicGroupJoin(context(ApiKeys.JOIN_GROUP, v, client),
                        JoinGroupRequestDataJsonConverter.read(q, v), future));
                }
                case "sync" -> {
                    var future = new CompletableFuture<SyncGroupResponseData>();
                    waiting.put(ticket, future);
                    happen(shard.classicGroupSync(context(ApiKeys.SYNC_GROUP, v, client),
                        SyncGroupRequestDataJsonConverter.read(q, v), future));
                }
                case "heartbeat" -> {
                    var result = shard.classicGroupHeartbeat(context(ApiKeys.HEARTBEAT, v, client),
                        HeartbeatRequestDataJsonConverter.read(q, v));
                    happen(result);
                    answer(ticket, HeartbeatResponseDataJsonConverter.write(result.response(), v));
                }
                case "leave" -> {
                    var result = shard.classicGroupLeave(context(ApiKeys.LEAVE_GROUP, v, client),
                        LeaveGroupRequestDataJsonConverter.read(q, v));
                    happen(result);
                    answer(ticket, LeaveGroupResponseDataJsonConverter.write(result.response(), v));
                }
                case "consumer" -> {
                    var result = shard.consumerGroupHeartbeat(context(ApiKeys.CONSUMER_GROUP_HEARTBEAT, v, client),
                        ConsumerGroupHeartbeatRequestDataJsonConverter.read(q, v));
                    happen(result);
                    answer(ticket, ConsumerGroupHeartbeatResponseDataJsonConverter.write(result.response(), v));
                }
                case "streams" -> {
                    var result = shard.streamsGroupHeartbeat(context(ApiKeys.STREAMS_GROUP_HEARTBEAT, v, client),
                        StreamsGroupHeartbeatRequestDataJsonConverter.read(q, v));
                    happen(result);
                    answer(ticket, StreamsGroupHeartbeatResponseDataJsonConverter.write(result.response().data(), v));
                }
                case "commit" -> {
                    var result = shard.commitOffset(context(ApiKeys.OFFSET_COMMIT, v, client), commit(q));
                    happen(result);
                    answer(ticket, OffsetCommitResponseDataJsonConverter.write(result.response(), (short) 9));
                }
                case "fetch" -> answer(ticket, fetch(q));
                case "delete-offsets" -> {
                    var result = shard.deleteOffsets(context(ApiKeys.OFFSET_DELETE, v, client),
                        OffsetDeleteRequestDataJsonConverter.read(q, v));
                    happen(result);
                    answer(ticket, OffsetDeleteResponseDataJsonConverter.write(result.response(), v));
                }
                case "delete-group" -> {
                    var result = shard.deleteGroups(context(ApiKeys.DELETE_GROUPS, v, client), List.of(id));
                    happen(result);
                    answer(ticket, DeleteGroupsResponseDataJsonConverter.write(
                        new DeleteGroupsResponseData().setResults(result.response()), DELETE_VERSION));
                }
                default -> throw new IllegalArgumentException(op);
            }
        } catch (RuntimeException thrown) {
            waiting.remove(ticket);
            fail(ticket, thrown);
        }
        sort(id);
        if (makesId) {
            Set<String> after = memberIds(id);
            after.removeAll(before);
            made = after.isEmpty() ? null : after.iterator().next();
        }
    }

    static OffsetCommitRequestData commit(JsonNode q) {
        OffsetCommitRequestData request = new OffsetCommitRequestData().setGroupId(q.get("groupId").asText())
            .setMemberId(q.get("memberId").asText()).setGenerationIdOrMemberEpoch(q.get("epoch").asInt())
            .setGroupInstanceId(q.get("instanceId").isNull() ? null : q.get("instanceId").asText())
            .setRetentionTimeMs(q.get("retentionMs").asLong());
        for (JsonNode each : q.get("offsets")) {
            var topic = new OffsetCommitRequestData.OffsetCommitRequestTopic().setName(each.get(0).asText())
                .setTopicId(Uuid.fromString(each.get(1).asText()));
            topic.partitions().add(new OffsetCommitRequestData.OffsetCommitRequestPartition()
                .setPartitionIndex(each.get(2).asInt()).setCommittedOffset(each.get(3).asLong())
                .setCommittedLeaderEpoch(each.get(4).asInt()).setCommittedMetadata(each.get(5).asText()));
            request.topics().add(topic);
        }
        return request;
    }

    JsonNode fetch(JsonNode q) {
        var request = new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId(q.get("groupId").asText())
            .setMemberId(q.get("memberId").isNull() ? null : q.get("memberId").asText())
            .setMemberEpoch(q.get("epoch").asInt());
        if (q.get("partitions").isNull()) request.setTopics(null);
        else for (JsonNode each : q.get("partitions"))
            request.topics().add(new OffsetFetchRequestData.OffsetFetchRequestTopics().setName(each.get(0).asText())
                .setTopicId(Uuid.fromString(each.get(1).asText())).setPartitionIndexes(List.of(each.get(2).asInt())));
        var response = shard.fetchOffsets(request, Long.MAX_VALUE);
        ObjectNode found = NODES.objectNode().put("errorCode", response.errorCode());
        ArrayNode offsets = found.putArray("offsets");
        response.topics().forEach(topic -> topic.partitions().forEach(p -> offsets.addArray().add(topic.name())
            .add(p.partitionIndex()).add(p.committedOffset()).add(p.committedLeaderEpoch()).add(p.metadata())));
        return found;
    }

    // -- what happens without being asked

    void topics(JsonNode in) throws Exception {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        List<GroupCoordinatorShard.DeletedTopic> deleted = new ArrayList<>();
        for (JsonNode each : in.get("deleted")) {
            Uuid id = Uuid.fromString(each.get(1).asText());
            deleted.add(new GroupCoordinatorShard.DeletedTopic(id, each.get(0).asText()));
            delta.replay(new RemoveTopicRecord().setTopicId(id));
        }
        for (JsonNode each : in.get("changed")) {
            Uuid id = Uuid.fromString(each.get(1).asText());
            var known = image.topics().getTopic(id);
            if (known == null) delta.replay(new TopicRecord().setTopicId(id).setName(each.get(0).asText()));
            for (int p = known == null ? 0 : known.partitions().size(); p < each.get(2).asInt(); p++)
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(p)
                    .setReplicas(List.of(p % 4, (p + 1) % 4)));
        }
        image = delta.apply(new MetadataProvenance(++imageVersion, 0, 0L, true));
        shard.onMetadataUpdate(new KRaftCoordinatorMetadataDelta(delta), new KRaftCoordinatorMetadataImage(image));
        if (!deleted.isEmpty()) happen(shard.onTopicsDeleted(deleted));
    }

    void advance(long untilMs) throws Exception {
        for (Timeout due = timers.due(untilMs); due != null; due = timers.due(untilMs)) {
            clock.nowMs = due.deadlineMs;
            happen(due.operation.generateRecords());
        }
        clock.nowMs = untilMs;
        for (String id : groups.groupIds()) sort(id);
    }

    void runTasks() {
        while (!tasks.queue.isEmpty()) {
            var task = tasks.queue.poll();
            if (tasks.keys.remove(task.getKey())) happen(task.getValue().run());
        }
    }

    JsonNode handle(JsonNode in) throws Exception {
        answers = NODES.arrayNode();
        records = NODES.arrayNode();
        made = failure = null;
        String op = in.get("op").asText();
        switch (op) {
            case "open" -> open(in);
            case "load" -> load(in.get("records"));
            case "advance" -> advance(in.get("to").asLong());
            case "topics" -> topics(in);
            case "tasks" -> runTasks();
            case "expire" -> happen(shard.cleanupGroupMetadata());
            default -> request(op, in);
        }
        collect();
        ObjectNode out = NODES.objectNode();
        out.set("answers", answers);
        out.set("records", records);
        ObjectNode armed = out.putObject("timers");
        timers.queue.forEach(timeout -> armed.put(timeout.key, timeout.deadlineMs));
        out.put("tasks", tasks.queue.size());
        if (made != null) out.put("made", made);
        if (failure != null) out.put("failure", failure);
        return out;
    }

    public static void main(String[] arguments) throws Exception { new Lockstep().serve(); }

    void serve() throws Exception {
        Security.insertProviderAt(new Seeded(), 1);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            output.println(JSON.writeValueAsString(handle(JSON.readTree(line))));
            output.flush();
        }
    }
}
