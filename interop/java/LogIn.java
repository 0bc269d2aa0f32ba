import java.io.FileInputStream;
import java.io.InputStream;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/**
 * Apache Kafka's Admin, which logs in and lists the topics it sees; with `logins.again` until it has logged in so often again. Its one
 * argument is a file of its properties.
 */
public class LogIn {
    /** Returns the token of the property `token`. */
    public static class Token implements AuthenticateCallbackHandler {
        private String token;

        @Override
        public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
            token = (String) configs.get("token");
        }

        @Override
        public void handle(Callback[] callbacks) {
            for (Callback each : callbacks)
                if (each instanceof OAuthBearerTokenCallback) ((OAuthBearerTokenCallback) each).token(made());
        }

        private OAuthBearerToken made() {
            return new OAuthBearerToken() {
                public String value() { return token; }
                public Set<String> scope() { return Set.of(); }
                public long lifetimeMs() { return System.currentTimeMillis() + 3_600_000; }
                public String principalName() { return "kohort"; }
                public Long startTimeMs() { return null; }
            };
        }

        @Override
        public void close() { }
    }

    private static double metric(Admin admin, String name) {
        return admin.metrics().values().stream()
            .filter(each -> each.metricName().name().equals(name) && each.metricName().group().equals("admin-client-metrics"))
            .mapToDouble(each -> (Double) each.metricValue()).sum();
    }

    public static void main(String[] argv) throws Exception {
        Properties properties = new Properties();
        try (InputStream file = new FileInputStream(argv[0])) { properties.load(file); }
        if (properties.containsKey("token"))
            properties.put("sasl.login.callback.handler.class", Token.class.getName());
        try (Admin admin = Admin.create(properties)) {
            for (String name : admin.listTopics().names().get()) System.out.println("topic: " + name);
            double logins = Double.parseDouble(properties.getProperty("logins.again", "0"));
            double connections = metric(admin, "connection-creation-total");
            while (metric(admin, "successful-reauthentication-total") < logins) admin.listTopics().names().get();
            System.out.println("reconnected: " + Math.round(metric(admin, "connection-creation-total") - connections));
        } catch (ExecutionException error) {
            System.out.println("refused: " + error.getCause());
            System.exit(1);
        }
    }
}
