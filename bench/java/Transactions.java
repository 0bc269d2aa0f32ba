import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactions of Kafka's own producer, timed. Lines come in, one line goes out for each:
 *
 * <pre>
 * produce BOOTSTRAP TOPIC PARTITIONS TRANSACTIONS RECORDS SIZE   MiB/s, and each commitTransaction() in ms
 * offsets BOOTSTRAP TOPIC GROUPS SECONDS    TxnOffsetCommit requests answered; one producer and thread a group
 * read BOOTSTRAP TOPIC PARTITIONS RECORDS ISOLATION              MiB/s of so many records
 * </pre>
 */
public class Transactions {
    static final int COMMITS_A_TRANSACTION = 200;

    static KafkaProducer<byte[], byte[]> producer(String bootstrap, String id) {
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                Map.of(
                        "bootstrap.servers", bootstrap,
                        "transactional.id", id,
                        "acks", "all",
                        "linger.ms", "5",
                        "batch.size", "65536"),
                new ByteArraySerializer(),
                new ByteArraySerializer());
        producer.initTransactions();
        return producer;
    }

    static String produce(String bootstrap, String topic, int partitions, int transactions, int records, int size) {
        try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, topic)) {
            byte[] value = new byte[size];
            Arrays.fill(value, (byte) 'x');
            double[] commits = new double[transactions];
            long start = System.nanoTime();
            for (int i = 0; i < transactions; i++) {
                producer.beginTransaction();
                for (int j = 0; j < records; j++) producer.send(new ProducerRecord<>(topic, j % partitions, null, value));
                producer.flush();
                long before = System.nanoTime();
                producer.commitTransaction();
                commits[i] = (System.nanoTime() - before) / 1e6;
            }
            double seconds = (System.nanoTime() - start) / 1e9;
            StringBuilder line = new StringBuilder();
            line.append((double) transactions * records * size / seconds / (1 << 20));
            for (double each : commits) line.append(' ').append(each);
            return line.toString();
        }
    }

    static String offsets(String bootstrap, String topic, int groups, int seconds) throws InterruptedException {
        AtomicLong answered = new AtomicLong();
        List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        for (int i = 0; i < groups; i++) producers.add(producer(bootstrap, topic + "-" + i));
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < groups; i++) {
            KafkaProducer<byte[], byte[]> producer = producers.get(i);
            ConsumerGroupMetadata group = new ConsumerGroupMetadata(topic + "-" + i);
            Thread thread = new Thread(() -> {
                long offset = 0;
                while (System.nanoTime() < end) {
                    producer.beginTransaction();
                    for (int j = 0; j < COMMITS_A_TRANSACTION && System.nanoTime() < end; j++) {
                        TopicPartition partition = new TopicPartition(topic, (int) (offset % 3));
                        producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(offset++)), group);
                        answered.incrementAndGet();
                    }
                    producer.commitTransaction();
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) thread.join();
        for (KafkaProducer<byte[], byte[]> producer : producers) producer.close();
        return String.valueOf(answered.get());
    }

    static String read(String bootstrap, String topic, int partitions, int records, String isolation) {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                Map.of("bootstrap.servers", bootstrap, "isolation.level", isolation, "auto.offset.reset", "earliest"),
                new ByteArrayDeserializer(),
                new ByteArrayDeserializer())) {
            List<TopicPartition> all = new ArrayList<>();
            for (int i = 0; i < partitions; i++) all.add(new TopicPartition(topic, i));
            consumer.assign(all);
            long bytes = 0, start = 0;
            int seen = 0;
            while (seen < records) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(10))) {
                    if (start == 0) start = System.nanoTime();
                    seen++;
                    bytes += record.serializedValueSize();
                }
            }
            return String.valueOf(bytes / ((System.nanoTime() - start) / 1e9) / (1 << 20));
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] f = line.split(" ");
            String answer = switch (f[0]) {
                case "produce" -> produce(
                        f[1], f[2], Integer.parseInt(f[3]), Integer.parseInt(f[4]), Integer.parseInt(f[5]), Integer.parseInt(f[6]));
                case "offsets" -> offsets(f[1], f[2], Integer.parseInt(f[3]), Integer.parseInt(f[4]));
                case "read" -> read(f[1], f[2], Integer.parseInt(f[3]), Integer.parseInt(f[4]), f[5]);
                default -> throw new IllegalArgumentException(line);
            };
            System.out.println(answer);
        }
    }
}
