import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/** Kafka's StandardAuthorizer: each line is a JSON object with `op`, and is answered by one line. */
public class AuthorizerLockstep {
    static final ObjectMapper JSON = new ObjectMapper();
    static StandardAuthorizer authorizer;
    static Map<AclBinding, Uuid> ids = new HashMap<>();

    static AclBinding binding(JsonNode acl) {
        return new AclBinding(
            new ResourcePattern(
                ResourceType.fromCode((byte) acl.get(0).asInt()), acl.get(1).asText(),
                PatternType.fromCode((byte) acl.get(2).asInt())),
            new AccessControlEntry(
                acl.get(3).asText(), acl.get(4).asText(), AclOperation.fromCode((byte) acl.get(5).asInt()),
                AclPermissionType.fromCode((byte) acl.get(6).asInt())));
    }

    static AclBindingFilter filter(JsonNode wanted) {
        return new AclBindingFilter(
            new ResourcePatternFilter(
                ResourceType.fromCode((byte) wanted.get(0).asInt()), text(wanted.get(1)),
                PatternType.fromCode((byte) wanted.get(2).asInt())),
            new AccessControlEntryFilter(
                text(wanted.get(3)), text(wanted.get(4)), AclOperation.fromCode((byte) wanted.get(5).asInt()),
                AclPermissionType.fromCode((byte) wanted.get(6).asInt())));
    }

    static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }

    static String answer(JsonNode line) throws Exception {
        switch (line.get("op").asText()) {
            case "open":
                authorizer = new StandardAuthorizer();
                ids.clear();
                authorizer.configure(Map.of(
                    "super.users", line.get("super_users").asText(),
                    "allow.everyone.if.no.acl.found", line.get("default").asText()));
                authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                authorizer.completeInitialLoad();
                return "ok";
            case "add": {
                AclBinding added = binding(line.get("acl"));
                if (!ids.containsKey(added)) {
                    Uuid id = Uuid.randomUuid();
                    ids.put(added, id);
                    authorizer.addAcl(id, StandardAcl.fromAclBinding(added));
                }
                return "ok";
            }
            case "remove":
                authorizer.removeAcl(ids.remove(binding(line.get("acl"))));
                return "ok";
            case "filter": {
                AclBindingFilter wanted = filter(line.get("filter"));
                int count = 0;
                for (AclBinding ignored : authorizer.acls(wanted)) count++;
                return Integer.toString(count);
            }
            case "some":
                return result(authorizer.authorizeByResourceType(
                    new Client(line), AclOperation.fromCode((byte) line.get("operation").asInt()),
                    ResourceType.fromCode((byte) line.get("type").asInt())));
            default: {
                Client client = new Client(line);
                StringBuilder results = new StringBuilder();
                for (JsonNode question : line.get("questions")) {
                    ResourcePattern resource = new ResourcePattern(
                        ResourceType.fromCode((byte) question.get(1).asInt()), question.get(2).asText(),
                        PatternType.LITERAL);
                    Action action = new Action(
                        AclOperation.fromCode((byte) question.get(0).asInt()), resource, 1, false, false);
                    results.append(result(authorizer.authorize(client, List.of(action)).get(0)));
                }
                return results.toString();
            }
        }
    }

    static String result(AuthorizationResult result) {
        return result == AuthorizationResult.ALLOWED ? "1" : "0";
    }

    record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        Client(JsonNode line) throws Exception {
            this(
                new KafkaPrincipal(line.get("principal").get(0).asText(), line.get("principal").get(1).asText()),
                InetAddress.getByName(line.get("host").asText()));
        }

        @Override public String listenerName() { return "PLAINTEXT"; }
        @Override public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        @Override public int requestType() { return 3; }
        @Override public int requestVersion() { return 12; }
        @Override public String clientId() { return "lockstep"; }
        @Override public int correlationId() { return 1; }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(answer(JSON.readTree(line)));
            System.out.flush();
        }
    }
}
