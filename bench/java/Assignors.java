import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
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
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Kafka's assignors on one synthetic group, timed call by call; `server-uniform` and `server-range` are the broker's. Lines come in, one line goes out for each:
 *
 * <pre>
 * full ASSIGNOR MEMBERS TOPICS PARTITIONS homogeneous|heterogeneous   a group in which nobody owns anything
 * join                                    one member more, and the others own what the last call gave them
 * time MILLISECONDS                       calls assign() for so long, at least once: the milliseconds of each call, both of
 *                                         this thread's CPU, without the collector's and the compiler's
 * result                                  what the last call assigned: MEMBER:TOPIC-PARTITION,... for each member
 * </pre>
 *
 * Heterogeneous: member i takes the topics t with t mod 5 equal to i mod 5 or (i + 1) mod 5. Only assign() is timed.
 */
public class Assignors {
    static String assignor;
    static int members, topics, partitions;
    static boolean heterogeneous;
    static Cluster cluster;
    static GroupSubscription group;
    static List<ByteBuffer> userData;
    static Map<String, Assignment> last;
    static ConsumerGroupPartitionAssignor serverAssignor;
    static GroupSpec serverGroup;
    static SubscribedTopicDescriber serverTopics;
    static Map<Uuid, String> names;
    static GroupAssignment lastTarget;

    static boolean isServer() {
        return assignor.startsWith("server-");
    }

    static ConsumerPartitionAssignor fresh() {
        return switch (assignor) {
            case "range" -> new RangeAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(assignor);
        };
    }

    static String topic(int number) {
        return String.format("topic-%04d", number);
    }

    static void prepare(Map<String, Assignment> owned) {
        Map<Integer, List<String>> shared = new HashMap<>();
        Map<String, Subscription> subscriptions = new HashMap<>();
        userData = new ArrayList<>();
        for (int i = 0; i < members; i++) {
            int remainder = heterogeneous ? i % 5 : -1;
            List<String> names = shared.computeIfAbsent(remainder, r -> {
                List<String> list = new ArrayList<>();
                for (int t = 0; t < topics; t++)
                    if (r < 0 || t % 5 == r || t % 5 == (r + 1) % 5) list.add(topic(t));
                return list;
            });
            String member = String.format("member-%05d", i);
            Assignment mine = owned.get(member);
            // What a member sends: owned partitions with their generation, or, for sticky, user data.
            ConsumerPartitionAssignor own = fresh();
            if (mine != null) own.onAssignment(mine, new ConsumerGroupMetadata("g", 1, member, Optional.empty()));
            ByteBuffer data = own.subscriptionUserData(new HashSet<>(names));
            if (data != null) userData.add(data);
            subscriptions.put(member, assignor.equals("cooperative-sticky")
                ? new Subscription(names, data, mine == null ? List.of() : mine.partitions(), mine == null ? -1 : 1,
                    Optional.empty())
                : new Subscription(names, data));
        }
        group = new GroupSubscription(subscriptions);
    }

    /** The same group as a coordinator's assignor sees it: topics by id, previous targets also by partition. */
    static void prepareServer(Map<String, Map<Uuid, Set<Integer>>> owned) {
        serverAssignor = assignor.equals("server-uniform")
            ? new UniformAssignor() : new org.apache.kafka.coordinator.group.assignor.RangeAssignor();
        Uuid[] ids = new Uuid[topics];
        names = new HashMap<>();
        for (int t = 0; t < topics; t++) {
            ids[t] = new Uuid(0x9E3779B97F4A7C15L * (t + 1), 0xBF58476D1CE4E5B9L * (t + 1));
            names.put(ids[t], topic(t));
        }
        Map<Integer, Set<Uuid>> shared = new HashMap<>();
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (int i = 0; i < Assignors.members; i++) {
            int remainder = heterogeneous ? i % 5 : -1;
            Set<Uuid> subscribed = shared.computeIfAbsent(remainder, r -> {
                Set<Uuid> set = new HashSet<>();
                for (int t = 0; t < topics; t++)
                    if (r < 0 || t % 5 == r || t % 5 == (r + 1) % 5) set.add(ids[t]);
                return set;
            });
            String member = String.format("member-%05d", i);
            Map<Uuid, Set<Integer>> mine = owned.getOrDefault(member, Map.of());
            mine.forEach((id, partitions) -> partitions.forEach(partition ->
                owners.computeIfAbsent(id, key -> new HashMap<>()).put(partition, member)));
            members.put(member, new MemberSubscriptionAndAssignmentImpl(Optional.empty(), Optional.empty(), subscribed,
                new org.apache.kafka.coordinator.group.modern.Assignment(mine)));
        }
        serverGroup = new GroupSpecImpl(members,
            heterogeneous ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS, owners);
        serverTopics = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid id) {
                return names.containsKey(id) ? partitions : -1;
            }

            public Set<String> racksForPartition(Uuid id, int partition) {
                return Set.of();
            }
        };
    }

    static Map<String, Map<Uuid, Set<Integer>>> targets() {
        Map<String, Map<Uuid, Set<Integer>>> found = new TreeMap<>();
        lastTarget.members().forEach((member, assignment) -> {
            Map<Uuid, Set<Integer>> mine = new HashMap<>();
            assignment.partitions().forEach((id, numbers) -> mine.put(id, new HashSet<>(numbers)));
            found.put(member, mine);
        });
        return found;
    }

    static long cpuTime() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    static String full(String[] words) {
        assignor = words[1];
        members = Integer.parseInt(words[2]);
        topics = Integer.parseInt(words[3]);
        partitions = Integer.parseInt(words[4]);
        heterogeneous = words[5].equals("heterogeneous");
        if (isServer()) {
            prepareServer(Map.of());
            return "ok";
        }
        Node node = new Node(1, "localhost", 1);
        List<PartitionInfo> infos = new ArrayList<>();
        for (int t = 0; t < topics; t++)
            for (int p = 0; p < partitions; p++)
                infos.add(new PartitionInfo(topic(t), p, node, new Node[] {node}, new Node[] {node}));
        cluster = new Cluster("c", List.of(node), infos, Set.of(), Set.of());
        prepare(Map.of());
        return "ok";
    }

    static String join() {
        members++;
        if (isServer()) prepareServer(targets());
        else prepare(last);
        return "ok";
    }

    static String time(long milliseconds) {
        StringBuilder found = new StringBuilder();
        long end = cpuTime() + milliseconds * 1_000_000;
        do {
            if (isServer()) {
                long start = cpuTime();
                lastTarget = serverAssignor.assign(serverGroup, serverTopics);
                found.append((cpuTime() - start) / 1e6).append(' ');
                continue;
            }
            // The leader's instance is rebuilt per call, so that it carries no state over.
            ConsumerPartitionAssignor leader = fresh();
            // Sticky reads a member's user data once: at the end of the buffer it finds that nobody owns anything.
            for (ByteBuffer data : userData) data.rewind();
            long start = cpuTime();
            last = leader.assign(cluster, group).groupAssignment();
            found.append((cpuTime() - start) / 1e6).append(' ');
        } while (cpuTime() < end);
        return found.toString();
    }

    static String result() {
        StringBuilder found = new StringBuilder();
        if (isServer()) {
            targets().forEach((member, mine) -> {
                found.append(member).append(':');
                mine.forEach((id, numbers) -> numbers.forEach(number ->
                    found.append(names.get(id)).append('-').append(number).append(',')));
                found.append(' ');
            });
            return found.toString();
        }
        new TreeMap<>(last).forEach((member, assignment) -> {
            found.append(member).append(':');
            for (TopicPartition partition : assignment.partitions()) found.append(partition).append(',');
            found.append(' ');
        });
        return found.toString();
    }

    public static void main(String[] argv) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.trim().split(" ");
            System.out.println(switch (words[0]) {
                case "full" -> full(words);
                case "join" -> join();
                case "time" -> time(Long.parseLong(words[1]));
                case "result" -> result();
                default -> throw new IllegalArgumentException(Arrays.toString(words));
            });
            System.out.flush();
        }
    }
}
