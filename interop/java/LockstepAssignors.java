import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Kafka's own assignors, client-side and server-side, on one small group a line. In: {"assignor", "topics": {name:
 * partitions}, "members": {id: {"topics", "owned": [[topic, partition]], "generation", "instance", "data"}}}. Out: {id:
 * [[topic, partition]]}. A server-side one takes what its members own for their last targets.
 */
public class LockstepAssignors {
    static final ObjectMapper JSON = new ObjectMapper();

    static ConsumerPartitionAssignor client(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }

    static List<String> texts(JsonNode list) {
        List<String> found = new ArrayList<>();
        list.forEach(each -> found.add(each.asText()));
        return found;
    }

    static ObjectNode assignByClient(JsonNode in) {
        Node node = new Node(0, "localhost", 1);
        List<PartitionInfo> infos = new ArrayList<>();
        in.get("topics").fields().forEachRemaining(topic -> {
            for (int p = 0; p < topic.getValue().asInt(); p++)
                infos.add(new PartitionInfo(topic.getKey(), p, node, new Node[] {node}, new Node[] {node}));
        });
        Map<String, Subscription> subscriptions = new TreeMap<>();
        in.get("members").fields().forEachRemaining(entry -> {
            JsonNode member = entry.getValue();
            List<TopicPartition> owned = new ArrayList<>();
            member.get("owned").forEach(each -> owned.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt())));
            JsonNode data = member.get("data");
            Subscription subscription = new Subscription(texts(member.get("topics")),
                data.isNull() ? null : ByteBuffer.wrap(Base64.getDecoder().decode(data.asText())), owned,
                member.get("generation").asInt(), Optional.empty());
            JsonNode instance = member.get("instance");
            subscription.setGroupInstanceId(instance.isNull() ? Optional.empty() : Optional.of(instance.asText()));
            subscriptions.put(entry.getKey(), subscription);
        });
        Cluster cluster = new Cluster("c", List.of(node), infos, Set.of(), Set.of());
        ObjectNode out = JsonNodeFactory.instance.objectNode();
        client(in.get("assignor").asText()).assign(cluster, new GroupSubscription(subscriptions)).groupAssignment()
            .forEach((name, assignment) -> {
                var given = out.putArray(name);
                assignment.partitions().forEach(each -> given.addArray().add(each.topic()).add(each.partition()));
            });
        return out;
    }

    static ObjectNode assignByServer(ConsumerGroupPartitionAssignor assignor, JsonNode in) {
        Map<String, Uuid> ids = new TreeMap<>();
        Map<Uuid, String> names = new HashMap<>();
        in.get("topics").fieldNames().forEachRemaining(name -> {
            Uuid id = new Uuid(0x1000L, ids.size() + 1);
            ids.put(name, id);
            names.put(id, name);
        });
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new TreeMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> kinds = new HashSet<>();
        in.get("members").fields().forEachRemaining(entry -> {
            JsonNode member = entry.getValue();
            Set<Uuid> topics = new HashSet<>();
            texts(member.get("topics")).forEach(name -> topics.add(ids.get(name)));
            kinds.add(topics);
            Map<Uuid, Set<Integer>> mine = new HashMap<>();
            member.get("owned").forEach(each -> {
                Uuid id = ids.get(each.get(0).asText());
                mine.computeIfAbsent(id, key -> new HashSet<>()).add(each.get(1).asInt());
                owners.computeIfAbsent(id, key -> new HashMap<>()).put(each.get(1).asInt(), entry.getKey());
            });
            JsonNode instance = member.get("instance");
            members.put(entry.getKey(), new MemberSubscriptionAndAssignmentImpl(Optional.empty(),
                instance.isNull() ? Optional.empty() : Optional.of(instance.asText()), topics, new Assignment(mine)));
        });
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override public int numPartitions(Uuid id) { return in.get("topics").get(names.get(id)).asInt(); }
            @Override public Set<String> racksForPartition(Uuid id, int partition) { return Set.of(); }
        };
        var type = kinds.size() > 1 ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
        ObjectNode out = JsonNodeFactory.instance.objectNode();
        assignor.assign(new GroupSpecImpl(members, type, owners), describer).members().forEach((name, assignment) -> {
            var given = out.putArray(name);
            assignment.partitions().forEach((id, partitions) ->
                partitions.forEach(p -> given.addArray().add(names.get(id)).add(p)));
        });
        return out;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode in = JSON.readTree(line);
            System.out.println(JSON.writeValueAsString(switch (in.get("assignor").asText()) {
                case "uniform" -> assignByServer(new UniformAssignor(), in);
                case "server-range" ->
                    assignByServer(new org.apache.kafka.coordinator.group.assignor.RangeAssignor(), in);
                default -> assignByClient(in);
            }));
            System.out.flush();
        }
    }
}
