import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;

/**
 * Kafka Streams' own task assignor on one group a line. In: {"standby_replicas", "acceptable_recovery_lag",
 * "max_warmup_replicas", "stateful": [task], "stateless": [task], "hosts": {number: {"capacity", "active": [task],
 * "standby": [task], "lags": {task: lag}}}}; a task is a text, "0_3". Out: {"hosts": {number: {"active", "standby"}},
 * "probing"}.
 */
public class LockstepTasks {
    static Set<TaskId> tasks(JsonNode list) {
        Set<TaskId> found = new TreeSet<>();
        list.forEach(each -> found.add(TaskId.parse(each.asText())));
        return found;
    }

    static ArrayNode texts(Iterable<TaskId> tasks) {
        ArrayNode found = JsonNodeFactory.instance.arrayNode();
        tasks.forEach(each -> found.add(each.toString()));
        return found;
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode in = json.readTree(line);
            Set<TaskId> stateful = tasks(in.get("stateful"));
            Set<TaskId> all = tasks(in.get("stateless"));
            all.addAll(stateful);
            Map<ProcessId, ClientState> clients = new TreeMap<>();
            in.get("hosts").fields().forEachRemaining(entry -> {
                JsonNode host = entry.getValue();
                ProcessId id = new ProcessId(new UUID(0, Long.parseLong(entry.getKey())));
                Map<TaskId, Long> lags = new HashMap<>();
                host.get("lags").fields().forEachRemaining(lag -> lags.put(TaskId.parse(lag.getKey()), lag.getValue().asLong()));
                clients.put(id, new ClientState(tasks(host.get("active")), tasks(host.get("standby")), lags, Map.of(),
                    host.get("capacity").asInt(), id));
            });
            AssignmentConfigs rules = new AssignmentConfigs(in.get("acceptable_recovery_lag").asLong(),
                in.get("max_warmup_replicas").asInt(), in.get("standby_replicas").asInt(), 600_000L, List.of());
            RackAwareTaskAssignor racks = new RackAwareTaskAssignor(Cluster.empty(), Map.of(), Map.of(), Map.of(), Map.of(),
                null, rules, Time.SYSTEM);
            boolean isProbing = new HighAvailabilityTaskAssignor().assign(clients, all, stateful, racks, rules);
            ObjectNode out = JsonNodeFactory.instance.objectNode();
            ObjectNode hosts = out.putObject("hosts");
            clients.forEach((id, state) -> {
                ObjectNode host = hosts.putObject(Long.toString(id.id().getLeastSignificantBits()));
                host.set("active", texts(state.activeTasks()));
                host.set("standby", texts(state.standbyTasks()));
            });
            out.put("probing", isProbing);
            System.out.println(json.writeValueAsString(out));
            System.out.flush();
        }
    }
}
