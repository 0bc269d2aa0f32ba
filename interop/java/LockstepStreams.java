import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * Kafka's own assignor of streams groups on one group a line. In: {"standby_replicas", "subtopologies": {id: {"tasks",
 * "stateful"}}, "members": {id: {"process", "active": {subtopology: [partition]}, "standby"}}}. Out: {id: {"active",
 * "standby"}}.
 */
public class LockstepStreams {
    static Map<String, Set<Integer>> tasks(JsonNode found) {
        Map<String, Set<Integer>> all = new TreeMap<>();
        found.fields().forEachRemaining(entry -> {
            Set<Integer> partitions = new HashSet<>();
            entry.getValue().forEach(each -> partitions.add(each.asInt()));
            all.put(entry.getKey(), partitions);
        });
        return all;
    }

    static TopologyDescriber topology(JsonNode subtopologies) {
        List<String> ids = new ArrayList<>();
        subtopologies.fieldNames().forEachRemaining(ids::add);
        return new TopologyDescriber() {
            @Override
            public List<String> subtopologies() {
                return ids;
            }

            @Override
            public int maxNumInputPartitions(String id) {
                return subtopologies.get(id).get("tasks").asInt();
            }

            @Override
            public boolean isStateful(String id) {
                return subtopologies.get(id).get("stateful").asBoolean();
            }
        };
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode in = json.readTree(line);
            Map<String, MemberMetadataAndStateImpl> members = new TreeMap<>();
            in.get("members").fields().forEachRemaining(entry -> {
                JsonNode member = entry.getValue();
                members.put(entry.getKey(), new MemberMetadataAndStateImpl(Optional.empty(), Optional.empty(),
                    member.get("process").asText(), Map.of(), tasks(member.get("active")), tasks(member.get("standby")),
                    Map.of(), Map.of(), Map.of()));
            });
            AssignmentConfigsImpl configs = new AssignmentConfigsImpl(in.get("standby_replicas").asInt(), List.of());
            ObjectNode out = JsonNodeFactory.instance.objectNode();
            new StickyTaskAssignor().assign(new GroupSpecImpl(members, configs), topology(in.get("subtopologies")))
                .members().forEach((id, assigned) -> {
                    ObjectNode member = out.putObject(id);
                    member.set("active", json.valueToTree(assigned.activeTasks()));
                    member.set("standby", json.valueToTree(assigned.standbyTasks()));
                });
            System.out.println(json.writeValueAsString(out));
            System.out.flush();
        }
    }
}
