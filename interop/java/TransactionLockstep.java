import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import kafka.coordinator.transaction.InitProducerIdResult;
import kafka.coordinator.transaction.PendingCompleteTxn;
import kafka.coordinator.transaction.TransactionConfig;
import kafka.coordinator.transaction.TransactionCoordinator;
import kafka.coordinator.transaction.TransactionMarkerChannelManager;
import kafka.coordinator.transaction.TransactionStateManager;
import kafka.server.ReplicaManager;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.ProducerIdAndEpoch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.transaction.ProducerIdManager;
import org.apache.kafka.coordinator.transaction.TransactionLog;
import org.apache.kafka.coordinator.transaction.TransactionMetadata;
import org.apache.kafka.coordinator.transaction.TransactionState;
import org.apache.kafka.coordinator.transaction.TxnTransitMetadata;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.server.common.FinalizedFeatures;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.common.TransactionVersion;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogConfig;
import scala.Function0;
import scala.Function1;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction0;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction3;
import scala.runtime.BoxedUnit;
import sun.misc.Unsafe;

/**
 * Apache Kafka's own transaction coordinator in virtual time: one partition, a JSON object a line in, one a line out.
 *
 * <p>In: {"op": ..., "now": milliseconds, and what the operation takes}. Out: "answer" [error, producer id, epoch] or
 * null, "records" [[key, value]] in base64 in the order in which they were written, "markers" [[transactional id,
 * producer id, epoch, is commit, [[topic, partition]]]] that are to be written from here on.
 *
 * <p>Its log takes every record at once. Markers are written when "markers" says so.
 */
public class TransactionLockstep {
    static final ObjectMapper JSON = new ObjectMapper();
    static final int EPOCH = 1;

    static long nowMs;
    static long nextProducerId;
    static ArrayNode records;
    static ArrayNode markers;
    static ArrayNode answer;
    static final Map<String, PendingCompleteTxn> PENDING = new HashMap<>();

    /** A clock that stands still between two lines. */
    static class Clock implements Time {
        @Override public long milliseconds() { return nowMs; }
        @Override public long nanoseconds() { return nowMs * 1_000_000; }
        @Override public void sleep(long ms) { }
        @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) { }
    }

    /** A log that keeps what is appended, made without its constructor. */
    static class Log extends ReplicaManager {
        Log() {
            super(null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
                null, null, null, null);
        }

        @Override public Option<LogConfig> getLogConfig(TopicPartition partition) {
            return Option.apply(new LogConfig(new Properties()));
        }

        @Override public TopicIdPartition topicIdPartition(TopicPartition partition) {
            return new TopicIdPartition(Uuid.ONE_UUID, partition);
        }

        @Override public void appendRecords(
            long timeoutMs, short acks, boolean internal, AppendOrigin origin,
            scala.collection.Map<TopicIdPartition, MemoryRecords> entries,
            Function1<Map<TopicIdPartition, ProduceResponse.PartitionResponse>, BoxedUnit> done,
            Function1<scala.collection.Map<TopicIdPartition, org.apache.kafka.storage.internals.log.RecordValidationStats>, BoxedUnit> counted,
            RequestLocal local,
            scala.collection.Map<TopicPartition, org.apache.kafka.storage.internals.log.VerificationGuard> guards,
            short version
        ) {
            Map<TopicIdPartition, ProduceResponse.PartitionResponse> answers = new HashMap<>();
            CollectionConverters.asJava(entries).forEach((partition, batch) -> {
                for (Record record : batch.records())
                    records.addArray().add(text(record.key())).add(text(record.value()));
                answers.put(partition, new ProduceResponse.PartitionResponse(Errors.NONE, 0, nowMs, 0));
            });
            done.apply(answers);
        }
    }

    /** Notes the markers that are to be written, made without its constructor. */
    static class Markers extends TransactionMarkerChannelManager {
        Markers() { super(null, null, null, null, null); }

        @Override public void addTxnMarkersToSend(
            int coordinatorEpoch, TransactionResult result, TransactionMetadata metadata, TxnTransitMetadata next
        ) {
            String id = metadata.transactionalId();
            PENDING.put(id, new PendingCompleteTxn(id, coordinatorEpoch, metadata, next));
            ArrayNode marker = markers.addArray().add(id).add(metadata.producerId()).add(metadata.producerEpoch())
                .add(result == TransactionResult.COMMIT);
            ArrayNode partitions = marker.addArray();
            Set<String> names = new TreeSet<>();
            for (TopicPartition partition : metadata.topicPartitions())
                names.add(partition.topic() + " " + partition.partition());
            for (String name : names)
                partitions.addArray().add(name.split(" ")[0]).add(Integer.parseInt(name.split(" ")[1]));
        }

        @Override public void removeMarkersForTxnTopicPartition(int partition) { PENDING.clear(); }
    }

    static JsonNode text(ByteBuffer bytes) {
        if (bytes == null)
            return JSON.nullNode();
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return JSON.getNodeFactory().textNode(Base64.getEncoder().encodeToString(copy));
    }

    static void answered(Errors error, long producerId, int epoch) {
        answer = JSON.createArrayNode().add(error.code()).add(producerId).add(epoch);
    }

    static class Ended extends AbstractFunction3<Errors, Object, Object, BoxedUnit> {
        @Override public BoxedUnit apply(Errors error, Object producerId, Object epoch) {
            answered(error, (Long) producerId, (Short) epoch);
            return BoxedUnit.UNIT;
        }
    }

    /** The end of a transaction that nobody asked for. */
    static class Silent extends AbstractFunction3<Errors, Object, Object, BoxedUnit> {
        @Override public BoxedUnit apply(Errors error, Object producerId, Object epoch) { return BoxedUnit.UNIT; }
    }

    static TransactionStateManager states;
    static TransactionCoordinator coordinator;
    static Markers sender;

    @SuppressWarnings("unchecked")
    static <T> T without(Class<T> of) throws Exception {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return (T) ((Unsafe) field.get(null)).allocateInstance(of);
    }

    static Object stub(Class<?> of, Map<String, Object> answers) {
        return Proxy.newProxyInstance(of.getClassLoader(), new Class<?>[] {of}, (proxy, method, arguments) -> {
            if (answers.containsKey(method.getName()))
                return answers.get(method.getName());
            throw new UnsupportedOperationException(method.toString());
        });
    }

    /** Begin anew, with what a log holds. */
    static void open(JsonNode line) throws Exception {
        JsonNode config = line.get("config");
        TransactionConfig settings = new TransactionConfig(
            config.get("expiration").asInt(), config.get("max_timeout").asInt(), 1, (short) 1, 1 << 20, 1 << 20, 1, 10_000,
            3_600_000, false, 30_000);
        FinalizedFeatures features = new FinalizedFeatures(
            MetadataVersion.LATEST_PRODUCTION, Map.of("transaction.version", (short) config.get("version").asInt()), 0);
        MetadataCache cache = (MetadataCache) stub(MetadataCache.class, Map.of("features", features));
        Scheduler scheduler = (Scheduler) stub(Scheduler.class, nulls("startup", "shutdown", "schedule", "scheduleOnce"));
        Time clock = new Clock();
        Log log = without(Log.class);
        states = new TransactionStateManager(1, scheduler, log, cache, settings, clock, new Metrics());
        states.startup(new AbstractFunction0<Object>() { @Override public Object apply() { return 1; } }, false);
        sender = without(Markers.class);
        ProducerIdManager ids = () -> nextProducerId;
        Function0<ProducerIdManager> made = new AbstractFunction0<ProducerIdManager>() {
            @Override public ProducerIdManager apply() { return ids; }
        };
        coordinator = new TransactionCoordinator(settings, scheduler, made, states, sender, clock, new LogContext());
        Field active = TransactionCoordinator.class.getDeclaredField("isActive");
        active.setAccessible(true);
        ((java.util.concurrent.atomic.AtomicBoolean) active.get(coordinator)).set(true);
        load(line.get("records"));
    }

    static Map<String, Object> nulls(String... names) {
        Map<String, Object> found = new HashMap<>();
        for (String name : names)
            found.put(name, null);
        return found;
    }

    /** Lose everything, and take up what a log holds, as TransactionStateManager does after its reading. */
    static void load(JsonNode log) throws Exception {
        PENDING.clear();
        ConcurrentHashMap<String, TransactionMetadata> found = new ConcurrentHashMap<>();
        for (JsonNode record : log) {
            ByteBuffer key = ByteBuffer.wrap(record.get(0).binaryValue());
            ByteBuffer value = record.get(1).isNull() ? null : ByteBuffer.wrap(record.get(1).binaryValue());
            String id = TransactionLog.readTxnRecordKey(key.duplicate());
            if (TransactionLog.read(key, value) instanceof TransactionLog.TxnRecord read)
                found.put(id, read.metadata());
            else
                found.remove(id);
        }
        states.removeTransactionsForTxnTopicPartition(0);
        states.addLoadedTransactionsToCache(0, EPOCH, found);
        for (String id : new TreeSet<>(found.keySet())) {
            TransactionMetadata metadata = found.get(id);
            if (metadata.state() == TransactionState.PREPARE_ABORT)
                sender.addTxnMarkersToSend(EPOCH, TransactionResult.ABORT, metadata, metadata.prepareComplete(nowMs));
            else if (metadata.state() == TransactionState.PREPARE_COMMIT)
                sender.addTxnMarkersToSend(EPOCH, TransactionResult.COMMIT, metadata, metadata.prepareComplete(nowMs));
        }
    }

    static Set<TopicPartition> partitions(JsonNode several) {
        Set<TopicPartition> found = new HashSet<>();
        for (JsonNode each : several)
            found.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt()));
        return found;
    }

    static void take(JsonNode line) throws Exception {
        String id = line.path("id").asText("");
        long producerId = line.path("producer_id").asLong(-1);
        short epoch = (short) line.path("epoch").asInt(-1);
        TransactionVersion version = TransactionVersion.fromFeatureLevel((short) line.path("version").asInt(0));
        switch (line.get("op").asText()) {
            case "open" -> open(line);
            case "load" -> load(line.get("records"));
            case "init" -> coordinator.handleInitProducerId(
                id, line.get("timeout").asInt(), false, false,
                producerId < 0 ? Option.empty() : Option.apply(new ProducerIdAndEpoch(producerId, epoch)),
                new AbstractFunction1<InitProducerIdResult, BoxedUnit>() {
                    @Override public BoxedUnit apply(InitProducerIdResult result) {
                        answered(result.error(), result.producerId(), result.producerEpoch());
                        return BoxedUnit.UNIT;
                    }
                }, RequestLocal.noCaching());
            case "add" -> coordinator.handleAddPartitionsToTransaction(
                id, producerId, epoch, partitions(line.get("partitions")),
                new AbstractFunction1<Errors, BoxedUnit>() {
                    @Override public BoxedUnit apply(Errors error) {
                        answered(error, -1, -1);
                        return BoxedUnit.UNIT;
                    }
                }, version, RequestLocal.noCaching());
            case "verify" -> coordinator.handleVerifyPartitionsInTransaction(
                id, producerId, epoch, partitions(line.get("partitions")),
                new AbstractFunction1<AddPartitionsToTxnResponseData.AddPartitionsToTxnResult, BoxedUnit>() {
                    @Override public BoxedUnit apply(AddPartitionsToTxnResponseData.AddPartitionsToTxnResult result) {
                        Errors worst = Errors.NONE;
                        for (var topic : result.topicResults())
                            for (var each : topic.resultsByPartition())
                                if (each.partitionErrorCode() != 0)
                                    worst = Errors.forCode(each.partitionErrorCode());
                        answered(worst, -1, -1);
                        return BoxedUnit.UNIT;
                    }
                });
            case "end" -> coordinator.handleEndTransaction(
                id, producerId, epoch, line.get("commit").asBoolean() ? TransactionResult.COMMIT : TransactionResult.ABORT,
                version, new Ended(), RequestLocal.noCaching());
            case "markers" -> {
                PendingCompleteTxn done = PENDING.remove(id);
                if (done != null)
                    states.appendTransactionToLog(
                        id, done.coordinatorEpoch(), done.newMetadata(),
                        new AbstractFunction1<Errors, BoxedUnit>() {
                            @Override public BoxedUnit apply(Errors error) { return BoxedUnit.UNIT; }
                        }, states.appendTransactionToLog$default$5(), RequestLocal.noCaching());
            }
            case "timeouts" -> coordinator.abortTimedOutTransactions(new AbstractFunction1<>() {
                @Override public scala.Function3<Errors, Object, Object, BoxedUnit> apply(
                    kafka.coordinator.transaction.TransactionalIdAndProducerIdEpoch timedOut) { return new Silent(); }
            });
            case "expire" -> states.removeExpiredTransactionalIds();
            default -> throw new IllegalArgumentException(line.toString());
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        String text;
        while ((text = in.readLine()) != null) {
            JsonNode line = JSON.readTree(text);
            nowMs = line.path("now").asLong(nowMs);
            nextProducerId = line.path("next_id").asLong(nextProducerId);
            records = JSON.createArrayNode();
            markers = JSON.createArrayNode();
            answer = null;
            try {
                take(line);
            } catch (IllegalStateException | IllegalArgumentException error) {
                answered(Errors.UNKNOWN_SERVER_ERROR, -1, -1);  // as KafkaApis answers it
            }
            ObjectNode found = JSON.createObjectNode();
            found.set("answer", answer == null ? JSON.nullNode() : answer);
            found.set("records", records);
            found.set("markers", markers);
            out.println(JSON.writeValueAsString(found));
            out.flush();
        }
    }
}
