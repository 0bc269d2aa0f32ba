import java.time.Duration;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * How long a group of Apache Kafka's own consumers, at default settings, takes to settle: Settle BROKERS MEMBERS
 * ASSIGNOR TURNS PAUSE_MS. The brokers, separated by commas, take turns. ASSIGNOR is a class of the classic protocol, or
 * "consumer" for the consumer protocol with the broker's default.
 *
 * <p>A turn takes a fresh group through three changes and prints one JSON line. cold_ms: all members but one start
 * together, from the last first poll. join_ms: the last one starts, from its first poll. leave_ms: one closes, from
 * its close. Each time until all partitions are held, each by one member, and shares differ by one at most. PAUSE_MS,
 * and up to half a second more, pass before the last one starts and before one closes.
 */
public class Settle {
    static final Duration POLL = Duration.ofMillis(50);
    static final long CALM_MS = 300;

    /** What each member holds, as its rebalance listener was told. */
    static final class Shares {
        private final int partitions;
        private final Map<Integer, Set<Integer>> held = new HashMap<>();
        private long settledAt;

        Shares(int partitions) { this.partitions = partitions; }

        synchronized void expect(int member) { held.put(member, new HashSet<>()); look(); }

        synchronized void forget(int member) { held.remove(member); look(); }

        synchronized void change(int member, Collection<TopicPartition> given, boolean isGiven) {
            Set<Integer> own = held.get(member);
            if (own == null) return;
            for (TopicPartition partition : given) {
                if (isGiven) own.add(partition.partition()); else own.remove(partition.partition());
            }
            look();
        }

        private void look() {
            BitSet all = new BitSet();
            int total = 0, least = Integer.MAX_VALUE, most = 0;
            for (Set<Integer> own : held.values()) {
                total += own.size();
                least = Math.min(least, own.size());
                most = Math.max(most, own.size());
                own.forEach(all::set);
            }
            boolean isSettled = total == partitions && all.cardinality() == partitions && most - least <= 1;
            if (!isSettled) settledAt = 0;
            else if (settledAt == 0) settledAt = System.nanoTime();
        }

        /** Wait until the group has been settled for a while, and return since when. */
        long await() throws InterruptedException {
            for (int i = 0; i < 12_000; i++) {
                synchronized (this) {
                    if (settledAt != 0 && System.nanoTime() - settledAt > CALM_MS * 1_000_000) return settledAt;
                }
                Thread.sleep(10);
            }
            throw new IllegalStateException("not settled after two minutes: " + held);
        }
    }

    /** One consumer in a thread of its own. */
    static final class Member extends Thread {
        final int number;
        private final Shares shares;
        private final String topic;
        private final CountDownLatch start;
        private final KafkaConsumer<byte[], byte[]> consumer;
        private volatile boolean isClosing;
        volatile long firstPoll;

        Member(int number, Shares shares, Properties config, String topic, CountDownLatch start) {
            this.number = number;
            this.shares = shares;
            this.topic = topic;
            this.start = start;
            consumer = new KafkaConsumer<>(config);
            start();
        }

        @Override public void run() {
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                public void onPartitionsAssigned(Collection<TopicPartition> given) { shares.change(number, given, true); }
                public void onPartitionsRevoked(Collection<TopicPartition> taken) { shares.change(number, taken, false); }
            });
            try {
                start.await();
                firstPoll = System.nanoTime();
                while (!isClosing) consumer.poll(POLL);
            } catch (WakeupException | InterruptedException e) {
                // closing
            }
            consumer.close();
        }

        void finish() { isClosing = true; consumer.wakeup(); }
    }

    static double ms(long from, long to) { return (to - from) / 1e6; }

    static void pause(int pauseMs, Random random) throws InterruptedException {
        Thread.sleep(pauseMs + random.nextInt(500));
    }

    static void createTopic(String broker, String topic, int partitions) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker))) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        } catch (ExecutionException e) {
            if (!(e.getCause() instanceof TopicExistsException)) throw e;
        }
    }

    static void turn(String broker, int count, String assignor, int pauseMs, String topic, Random random)
            throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", broker);
        config.put("group.id", "settle-" + UUID.randomUUID());
        if (assignor.equals("consumer")) {
            config.put("group.protocol", "consumer");
        } else {
            config.put("group.protocol", "classic");
            config.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
        }
        config.put("enable.auto.commit", "false");
        config.put("key.deserializer", ByteArrayDeserializer.class.getName());
        config.put("value.deserializer", ByteArrayDeserializer.class.getName());

        Shares shares = new Shares(2 * count);
        List<Member> members = new ArrayList<>();
        CountDownLatch start = new CountDownLatch(1);
        for (int number = 1; number < count; number++) {
            shares.expect(number);
            members.add(new Member(number, shares, config, topic, start));
        }
        Thread.sleep(200);
        start.countDown();
        long settled = shares.await();
        double cold = ms(members.stream().mapToLong(member -> member.firstPoll).max().getAsLong(), settled);

        pause(pauseMs, random);
        shares.expect(count);
        Member last = new Member(count, shares, config, topic, new CountDownLatch(0));
        members.add(last);
        settled = shares.await();
        double join = ms(last.firstPoll, settled);

        pause(pauseMs, random);
        Member first = members.remove(0);
        long closed = System.nanoTime();
        shares.forget(first.number);
        first.finish();
        double leave = ms(closed, shares.await());

        System.out.printf(Locale.ROOT, "{\"broker\":\"%s\",\"cold_ms\":%.2f,\"join_ms\":%.2f,\"leave_ms\":%.2f}%n",
            broker, cold, join, leave);
        for (Member member : members) member.finish();
        first.join();
        for (Member member : members) member.join();
    }

    public static void main(String[] arguments) throws Exception {
        String[] brokers = arguments[0].split(",");
        int count = Integer.parseInt(arguments[1]);
        String topic = "settle-" + 2 * count;
        for (String broker : brokers) createTopic(broker, topic, 2 * count);
        for (int i = 0; i < Integer.parseInt(arguments[3]); i++) {
            for (String broker : brokers) {
                // The same pauses for each broker, so that each is met at the same phase of the heartbeats.
                turn(broker, count, arguments[2], Integer.parseInt(arguments[4]), topic, new Random(i));
            }
        }
    }
}
