import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * One group member by Apache Kafka's own consumer, with its default assignors (range, cooperative-sticky).
 * Arguments and output are those of the programs in interop/members.
 */
public class GroupMember {
    static KafkaConsumer<String, String> consumer;
    static String topic;
    static final TreeSet<Integer> owned = new TreeSet<>();
    static final Map<Integer, Long> positions = new HashMap<>();
    static volatile boolean over;

    static void line(String event, String fields) {
        // On Linux this is the machine's monotonic clock, the one that the Python programs print.
        String at = String.format(Locale.ROOT, "%.6f", System.nanoTime() / 1e9);
        System.out.println("{\"event\":\"" + event + "\",\"at_s\":" + at + fields + "}");
        System.out.flush();
    }

    static void owns(String why) {
        line("owns", ",\"partitions\":" + owned + ",\"why\":\"" + why + "\"");
    }

    static void commit() {
        if (positions.isEmpty()) return;
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        positions.forEach((p, o) -> offsets.put(new TopicPartition(topic, p), new OffsetAndMetadata(o)));
        try {
            consumer.commitSync(offsets);
            line("committed", ",\"offsets\":{" + positions.entrySet().stream()
                .map(e -> "\"" + e.getKey() + "\":" + e.getValue()).collect(Collectors.joining(",")) + "}");
            positions.clear();
        } catch (WakeupException e) {
            over = true;
            commit();
        } catch (KafkaException e) {
            line("refused", ",\"error\":\"" + e.getClass().getSimpleName() + "\"");
        }
    }

    static final class Listener implements ConsumerRebalanceListener {
        private static List<Integer> numbers(Collection<TopicPartition> partitions) {
            return partitions.stream().map(TopicPartition::partition).collect(Collectors.toList());
        }

        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            owned.addAll(numbers(partitions));
            owns("assigned");
        }

        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            commit();
            owned.removeAll(numbers(partitions));
            owns("revoked");
        }

        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            positions.clear();
            owned.removeAll(numbers(partitions));
            owns("lost");
        }
    }

    static Properties configuration(String[] argv) {
        Map<String, String> settings = new HashMap<>();
        for (int i = 3; i < argv.length; i++) settings.put(argv[i].split("=")[0], argv[i].split("=")[1]);
        Properties config = new Properties();
        config.put("bootstrap.servers", argv[0]);
        config.put("group.id", argv[1]);
        config.put("client.id", "java");
        config.put("key.deserializer", StringDeserializer.class.getName());
        config.put("value.deserializer", StringDeserializer.class.getName());
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.put("session.timeout.ms", settings.getOrDefault("session_ms", "6000"));
        config.put("heartbeat.interval.ms", settings.getOrDefault("heartbeat_ms", "1000"));
        config.put("fetch.max.wait.ms", "100");
        if (settings.containsKey("instance")) config.put("group.instance.id", settings.get("instance"));
        if (settings.containsKey("assignor")) {
            Map<String, String> names = Map.of("range", "RangeAssignor", "roundrobin", "RoundRobinAssignor",
                "sticky", "StickyAssignor", "cooperative-sticky", "CooperativeStickyAssignor");
            config.put("partition.assignment.strategy", Stream.of(settings.get("assignor").split(","))
                .map(name -> "org.apache.kafka.clients.consumer." + names.get(name)).collect(Collectors.joining(",")));
        }
        return config;
    }

    static ConsumerRecords<String, String> poll() {
        try {
            return consumer.poll(Duration.ofMillis(100));
        } catch (WakeupException e) {
            throw e;
        } catch (KafkaException e) {
            line("troubled", ",\"error\":" + quoted(e.toString()));
            return ConsumerRecords.empty();
        }
    }

    static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    public static void main(String[] argv) throws Exception {
        topic = argv[2];
        consumer = new KafkaConsumer<>(configuration(argv));
        CountDownLatch left = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            over = true;
            consumer.wakeup();
            try {
                left.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(topic), new Listener());
        try {
            while (!over) {
                List<String> rows = new ArrayList<>();
                for (ConsumerRecord<String, String> r : poll()) {
                    rows.add("[" + r.partition() + "," + r.offset() + "," + quoted(r.key()) + "," + quoted(r.value()) + "]");
                    positions.put(r.partition(), r.offset() + 1);
                }
                if (!rows.isEmpty()) line("read", ",\"records\":[" + String.join(",", rows) + "]");
                commit();
            }
        } catch (WakeupException e) {
            // Asked to leave.
        } finally {
            commit();
            line("leaving", "");
            consumer.close();
            line("left", "");
            left.countDown();
        }
    }
}
