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
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import sun.misc.Signal;

/**
 * One group member by Apache Kafka's own consumer, with its default assignors (range, cooperative-sticky) or with the
 * consumer protocol. Arguments and output are those of the programs in interop/members.
 */
public class GroupMember {
    static KafkaConsumer<String, String> consumer;
    static String topic;
    static final Map<String, String> settings = new HashMap<>();
    static final TreeSet<Integer> owned = new TreeSet<>();
    static final Map<Integer, Long> positions = new HashMap<>();
    static volatile boolean over;
    static volatile boolean turning;

    /** Whether the library commits by itself, at its own times, and what is read is not reported. */
    static boolean isAutomatic() {
        return "1".equals(settings.get("auto"));
    }

    static boolean isReported() {
        return "1".equals(settings.get("report"));
    }

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
        String wanted = ",\"offsets\":{" + positions.entrySet().stream()
            .map(e -> "\"" + e.getKey() + "\":" + e.getValue()).collect(Collectors.joining(",")) + "}";
        line("committing", wanted);
        try {
            consumer.commitSync(offsets);
            line("committed", wanted);
            positions.clear();
        } catch (WakeupException e) {
            commit();  // asked to leave or to turn, which the loop sees
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

    static Properties configuration(String[] argv, boolean isNative) {
        Properties config = new Properties();
        settings.forEach((name, value) -> {
            if (name.startsWith("property.")) config.put(name.substring("property.".length()), value);
        });
        config.put("bootstrap.servers", argv[0]);
        config.put("group.id", argv[1]);
        config.put("client.id", settings.getOrDefault("client", "java"));
        config.put("key.deserializer", StringDeserializer.class.getName());
        config.put("value.deserializer", StringDeserializer.class.getName());
        config.put("enable.auto.commit", isAutomatic() ? "true" : "false");
        config.put("auto.offset.reset", "earliest");
        config.put("fetch.max.wait.ms", "100");
        config.put("group.protocol", isNative ? "consumer" : "classic");
        if (settings.containsKey("instance")) config.put("group.instance.id", settings.get("instance"));
        if (isNative) {
            if (settings.containsKey("remote_assignor"))
                config.put("group.remote.assignor", settings.get("remote_assignor"));
            return config;
        }
        if (!isAutomatic()) {
            config.put("session.timeout.ms", settings.getOrDefault("session_ms", "6000"));
            config.put("heartbeat.interval.ms", settings.getOrDefault("heartbeat_ms", "1000"));
        }
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

    static void subscribe() {
        if (!settings.containsKey("regex")) consumer.subscribe(List.of(topic), new Listener());
        else consumer.subscribe(new SubscriptionPattern(settings.get("regex")), new Listener());
    }

    /** Read and commit with one consumer, until asked to close it. */
    static void run(String[] argv, boolean isNative) {
        consumer = new KafkaConsumer<>(configuration(argv, isNative));
        subscribe();
        try {
            while (!over && !turning) {
                List<String> rows = new ArrayList<>();
                for (ConsumerRecord<String, String> r : poll()) {
                    if (isAutomatic() && !isReported()) continue;
                    rows.add("[" + r.partition() + "," + r.offset() + "," + quoted(r.key()) + "," + quoted(r.value()) + "]");
                    if (!isAutomatic()) positions.put(r.partition(), r.offset() + 1);
                }
                if (!rows.isEmpty()) line("read", ",\"records\":[" + String.join(",", rows) + "]");
                commit();
            }
        } catch (WakeupException e) {
            // Asked to leave, or to turn.
        } finally {
            commit();
            line(over ? "leaving" : "turning", "");
            consumer.close();
        }
    }

    public static void main(String[] argv) {
        topic = argv[2];
        for (int i = 3; i < argv.length; i++) settings.put(argv[i].split("=", 2)[0], argv[i].split("=", 2)[1]);
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
        Signal.handle(new Signal("HUP"), signal -> {
            turning = true;
            consumer.wakeup();
        });
        boolean isNative = "consumer".equals(settings.get("protocol"));
        while (true) {
            run(argv, isNative);
            line(over ? "left" : "turned", "");
            if (over) break;
            owned.clear();
            positions.clear();
            turning = false;
            isNative = !isNative;
        }
        left.countDown();
    }
}
