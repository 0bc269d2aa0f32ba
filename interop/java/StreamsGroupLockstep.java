import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.zip.CRC32;
import org.apache.kafka.coordinator.group.GroupMetadataManager;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.TaskAssignor;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;

/** Kafka's coordinator as Lockstep.java runs it, with one scripted assignor of tasks. */
public class StreamsGroupLockstep extends Lockstep {
    /**
     * Deals tasks by who is in alone, an instance under any id, so that both sides find the same target whenever they
     * compute one. Standby copies go to the next members of other processes.
     */
    static final class Dealt implements TaskAssignor {
        @Override public String name() { return "sticky"; }

        static String process(GroupSpec group, String member) { return group.memberMetadata(member).processId(); }

        @Override public GroupAssignment assign(GroupSpec group, TopologyDescriber topology) {
            TreeMap<String, String> who = new TreeMap<>();
            for (String member : group.memberIds())
                who.put(group.memberMetadata(member).instanceId().orElse(member), member);
            List<String> members = new ArrayList<>(who.values());
            CRC32 sum = new CRC32();
            sum.update(String.join(",", who.keySet()).getBytes(StandardCharsets.UTF_8));
            long at = sum.getValue();
            Map<String, Map<String, Set<Integer>>> active = new HashMap<>(), standby = new HashMap<>();
            for (String subtopology : new TreeSet<>(topology.subtopologies())) {
                int copies = topology.isStateful(subtopology) ? group.configs().numStandbyReplicas() : 0;
                for (int task = 0; task < topology.maxNumInputPartitions(subtopology); task++, at++) {
                    Set<String> used = new HashSet<>();
                    for (int turn = 0; turn < members.size() && used.size() <= copies; turn++) {
                        String member = members.get((int) ((at + turn) % members.size()));
                        if (used.add(process(group, member)))
                            (turn == 0 ? active : standby).computeIfAbsent(member, each -> new HashMap<>())
                                .computeIfAbsent(subtopology, each -> new HashSet<>()).add(task);
                    }
                }
            }
            Map<String, MemberAssignment> found = new HashMap<>();
            for (String member : members)
                found.put(member, new MemberAssignment(active.getOrDefault(member, Map.of()),
                    standby.getOrDefault(member, Map.of())));
            return new GroupAssignment(found);
        }
    }

    @Override void prepare() throws Exception {
        field(GroupMetadataManager.class, "defaultStreamsGroupAssignor").set(groups, new Dealt());
        field(GroupMetadataManager.class, "streamsGroupAssignors").set(groups, Map.of("sticky", new Dealt()));
    }

    public static void main(String[] arguments) throws Exception { new StreamsGroupLockstep().serve(); }
}
