import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/**
 * How long a share group or a streams group takes to settle: SettleUnowned COORDINATOR BROKERS KIND MEMBERS PAUSE_MS.
 * KIND is "share" or "streams". Members connect to BROKERS, separated by commas, which take turns; COORDINATOR is where
 * the group is described.
 *
 * <p>A turn prints one JSON line, as Settle does: join_ms and leave_ms are from the start or close of one member until
 * the coordinator shows all partitions or tasks with the members that there should be, in shares that differ by one at
 * most.
 */
public class SettleUnowned {
    interface Member { void close(); }

    /** One share consumer in a thread of its own. */
    static final class ShareMember extends Thread implements Member {
        private final KafkaShareConsumer<byte[], byte[]> consumer;
        private volatile boolean isClosing;

        ShareMember(Properties config, String topic) {
            consumer = new KafkaShareConsumer<>(config);
            consumer.subscribe(List.of(topic));
            start();
        }

        @Override public void run() {
            try {
                while (!isClosing) consumer.poll(Duration.ofMillis(50));
            } catch (WakeupException e) {
                // closing
            }
            consumer.close();
        }

        @Override public void close() { isClosing = true; consumer.wakeup(); }
    }

    static Member member(String kind, String broker, String group, String topic) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", broker);
        if (kind.equals("share")) {
            config.put("group.id", group);
            config.put("key.deserializer", ByteArrayDeserializer.class.getName());
            config.put("value.deserializer", ByteArrayDeserializer.class.getName());
            return new ShareMember(config, topic);
        }
        Path state = Files.createTempDirectory("settle-streams");
        config.put("application.id", group);
        config.put("group.protocol", "streams");
        config.put("state.dir", state.toString());
        config.put("default.key.serde", Serdes.ByteArraySerde.class.getName());
        config.put("default.value.serde", Serdes.ByteArraySerde.class.getName());
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(topic).foreach((key, value) -> { });
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.start();
        return () -> streams.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
    }

    static List<Integer> shares(Admin admin, String kind, String group) throws Exception {
        try {
            if (kind.equals("share")) {
                var found = admin.describeShareGroups(List.of(group)).describedGroups().get(group).get();
                return found.members().stream().map(each -> each.assignment().topicPartitions().size()).toList();
            }
            var found = admin.describeStreamsGroups(List.of(group)).describedGroups().get(group).get();
            return found.members().stream()
                .map(each -> each.assignment().activeTasks().stream().mapToInt(task -> task.partitions().size()).sum())
                .toList();
        } catch (ExecutionException e) {
            if (e.getCause() instanceof GroupIdNotFoundException) return List.of();
            throw e;
        }
    }

    static long await(Admin admin, String kind, String group, int count, int partitions) throws Exception {
        List<Integer> shares = List.of();
        for (int i = 0; i < 6_000; i++) {
            shares = shares(admin, kind, group);
            int total = shares.stream().mapToInt(each -> each).sum();
            int least = shares.stream().mapToInt(each -> each).min().orElse(0);
            int most = shares.stream().mapToInt(each -> each).max().orElse(0);
            if (shares.size() == count && total == partitions && most - least <= 1) return System.nanoTime();
            Thread.sleep(10);
        }
        throw new IllegalStateException("not settled after two minutes: " + shares);
    }

    static void turn(Admin admin, String broker, String kind, int count, int pauseMs, String topic) throws Exception {
        String group = "settle-" + kind + "-" + UUID.randomUUID();
        List<Member> members = new ArrayList<>();
        for (int i = 1; i < count; i++) members.add(member(kind, broker, group, topic));
        await(admin, kind, group, count - 1, 2 * count);
        Thread.sleep(pauseMs);
        long began = System.nanoTime();
        members.add(member(kind, broker, group, topic));
        double join = (await(admin, kind, group, count, 2 * count) - began) / 1e6;
        Thread.sleep(pauseMs);
        began = System.nanoTime();
        Member first = members.remove(0);
        Thread closing = new Thread(first::close);
        closing.start();
        double leave = (await(admin, kind, group, count - 1, 2 * count) - began) / 1e6;
        System.out.printf(Locale.ROOT, "{\"broker\":\"%s\",\"join_ms\":%.2f,\"leave_ms\":%.2f}%n", broker, join, leave);
        closing.join();
        members.forEach(Member::close);
    }

    public static void main(String[] arguments) throws Exception {
        String kind = arguments[2];
        int count = Integer.parseInt(arguments[3]), pauseMs = Integer.parseInt(arguments[4]);
        String topic = "settle-" + kind + "-" + UUID.randomUUID();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            admin.createTopics(List.of(new NewTopic(topic, 2 * count, (short) 1))).all().get();
            for (String broker : arguments[1].split(",")) turn(admin, broker, kind, count, pauseMs, topic);
        }
    }
}
