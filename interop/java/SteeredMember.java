import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A group member that a test steers. Arguments, commands and output are those of interop/steered. */
public class SteeredMember {
    static final Map<String, String> settings = new HashMap<>();
    static volatile boolean over;

    /** Range under another name; it raises as long as a file is there. */
    public static class Failing extends RangeAssignor {
        @Override
        public String name() {
            return "failing";
        }

        @Override
        public ConsumerPartitionAssignor.GroupAssignment assign(Cluster cluster, GroupSubscription subscriptions) {
            if (Files.exists(Path.of(settings.get("failing")))) throw new RuntimeException("no rack for it");
            return super.assign(cluster, subscriptions);
        }
    }

    static Properties configuration(String[] argv) {
        Properties config = new Properties();
        config.put("bootstrap.servers", argv[0]);
        config.put("group.id", argv[1]);
        config.put("client.id", settings.get("client"));
        config.put("key.deserializer", StringDeserializer.class.getName());
        config.put("value.deserializer", StringDeserializer.class.getName());
        config.put("enable.auto.commit", "false");
        config.put("metadata.max.age.ms", "500");
        config.put("max.poll.interval.ms", settings.getOrDefault("poll_ms", "60000"));
        if (settings.containsKey("instance")) config.put("group.instance.id", settings.get("instance"));
        config.put("group.protocol", settings.getOrDefault("protocol", "classic"));
        if ("consumer".equals(settings.get("protocol"))) return config;
        config.put("session.timeout.ms", settings.getOrDefault("session_ms", "6000"));
        config.put("heartbeat.interval.ms", "500");
        String api = "org.apache.kafka.clients.consumer.";
        Map<String, String> names = Map.of("range", api + "RangeAssignor", "roundrobin", api + "RoundRobinAssignor",
            "failing", Failing.class.getName());
        config.put("partition.assignment.strategy", Stream.of(settings.getOrDefault("assignor", "range").split(","))
            .map(names::get).collect(Collectors.joining(",")));
        return config;
    }

    public static void main(String[] argv) throws Exception {
        for (int i = 3; i < argv.length; i++) settings.put(argv[i].split("=", 2)[0], argv[i].split("=", 2)[1]);
        CountDownLatch left = new CountDownLatch(1);
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(configuration(argv));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            over = true;
            try {
                left.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        if (settings.containsKey("pattern")) consumer.subscribe(Pattern.compile(settings.get("pattern")));
        else consumer.subscribe(Arrays.asList(settings.get("topics").split(",")));
        int done = 0;
        String owned = "";
        while (!over) {
            List<String> lines = Files.readAllLines(Path.of(argv[2]));
            for (; done < lines.size(); done++) {
                String[] words = lines.get(done).split(" ", 2);
                if (words[0].equals("subscribe")) consumer.subscribe(Arrays.asList(words[1].split(",")));
                if (words[0].equals("enforce")) consumer.enforceRebalance(words[1]);
                while (words[0].equals("stall") && !over) Thread.sleep(50);
            }
            try {
                consumer.poll(Duration.ofMillis(100));
            } catch (RuntimeException e) {
                System.err.println(e);
                Thread.sleep(200);
            }
            String now = consumer.assignment().stream().map(p -> "\"" + p + "\"")
                .collect(Collectors.toCollection(TreeSet::new)).toString();
            if (!now.equals(owned)) {
                owned = now;
                System.out.println(String.format(Locale.ROOT, "{\"at_s\":%.6f,\"owns\":%s}", System.nanoTime() / 1e9, owned));
                System.out.flush();
            }
        }
        consumer.close();
        left.countDown();
    }
}
