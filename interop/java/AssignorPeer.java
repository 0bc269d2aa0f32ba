import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's own sticky assignors as members and as leaders of groups, in bytes. A line in, a line out:
 *
 * <pre>
 * member ASSIGNOR TOPICS GENERATION PARTITIONS      the subscription of a member that was assigned PARTITIONS
 * leader ASSIGNOR TOPIC=RACK/RACK/...,... MEMBER=HEX ...   the assignments of a group, from members' subscriptions
 * </pre>
 *
 * A topic has a partition for each RACK, with one replica there; "-" is no rack. TOPICS and PARTITIONS are separated by commas; GENERATION 0 is a member before its first assignment.
 */
public class AssignorPeer {
    static ConsumerPartitionAssignor assignor(String name) {
        return name.equals("sticky") ? new StickyAssignor() : new CooperativeStickyAssignor();
    }

    static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    static String member(String[] words) {
        ConsumerPartitionAssignor assignor = assignor(words[1]);
        List<String> topics = List.of(words[2].split(","));
        int generation = Integer.parseInt(words[3]);
        List<TopicPartition> owned = new ArrayList<>();
        if (words.length > 4)
            for (String name : words[4].split(",")) {
                int dash = name.lastIndexOf('-');
                owned.add(new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1))));
            }
        if (generation > 0)
            assignor.onAssignment(new Assignment(owned),
                new ConsumerGroupMetadata("g", generation, "m", Optional.empty()));
        boolean eager = words[1].equals("sticky"); // its members have revoked everything when they join
        return hex(ConsumerProtocol.serializeSubscription(new Subscription(topics,
            assignor.subscriptionUserData(new HashSet<>(topics)), eager ? List.of() : owned,
            generation > 0 ? generation : -1, Optional.empty())));
    }

    static String leader(String[] words) {
        Map<String, Node> nodes = new TreeMap<>();
        List<PartitionInfo> infos = new ArrayList<>();
        for (String topic : words[2].split(",")) {
            String[] parts = topic.split("=");
            String[] racks = parts[1].split("/");
            for (int p = 0; p < racks.length; p++) {
                Node node = nodes.computeIfAbsent(racks[p],
                    rack -> new Node(nodes.size(), "localhost", 1, rack.equals("-") ? null : rack));
                infos.add(new PartitionInfo(parts[0], p, node, new Node[] {node}, new Node[] {node}));
            }
        }
        Map<String, Subscription> subscriptions = new TreeMap<>();
        for (String member : Arrays.copyOfRange(words, 3, words.length)) {
            String[] parts = member.split("=");
            subscriptions.put(parts[0], ConsumerProtocol.deserializeSubscription(
                ByteBuffer.wrap(HexFormat.of().parseHex(parts[1]))));
        }
        Cluster cluster = new Cluster("c", nodes.values(), infos, Set.of(), Set.of());
        StringBuilder found = new StringBuilder();
        assignor(words[1]).assign(cluster, new GroupSubscription(subscriptions)).groupAssignment()
            .forEach((name, assignment) -> found.append(name).append('=')
                .append(hex(ConsumerProtocol.serializeAssignment(assignment))).append(' '));
        return found.toString().trim();
    }

    public static void main(String[] argv) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.trim().split(" ");
            System.out.println(words[0].equals("member") ? member(words) : leader(words));
            System.out.flush();
        }
    }
}
