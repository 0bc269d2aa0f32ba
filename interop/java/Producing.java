import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Apache Kafka's own producer in each of its kinds: acks=0, acks=all, idempotent, transactional. Arguments are the
 * bootstrap servers, a topic, and properties as KEY=VALUE. It prints a JSON line for each kind: where its records are,
 * as [partition, offset, value], and for transactions what was aborted.
 */
public class Producing {
    static final int RECORDS = 120;
    static final int TRANSACTIONS = 6;
    static final Map<String, Map<String, String>> KINDS = new LinkedHashMap<>(Map.of(
        "acks-0", Map.of("acks", "0", "enable.idempotence", "false"),
        "acks-all", Map.of("acks", "all", "enable.idempotence", "false"),
        "idempotent", Map.of("acks", "all", "enable.idempotence", "true")));

    static Properties configuration(String[] argv, Map<String, String> changes) {
        Properties config = new Properties();
        config.put("bootstrap.servers", argv[0]);
        config.put("key.serializer", StringSerializer.class.getName());
        config.put("value.serializer", StringSerializer.class.getName());
        for (int i = 2; i < argv.length; i++) config.put(argv[i].split("=", 2)[0], argv[i].split("=", 2)[1]);
        config.putAll(changes);
        return config;
    }

    static List<String> send(KafkaProducer<String, String> producer, String topic, String kind, int from, int to)
            throws Exception {
        Map<String, Future<RecordMetadata>> sent = new LinkedHashMap<>();
        for (int i = from; i < to; i++) {
            String value = kind + ":" + i;
            sent.put(value, producer.send(new ProducerRecord<>(topic, "key-" + i % 17, value)));
        }
        producer.flush();
        List<String> rows = new ArrayList<>();
        for (Map.Entry<String, Future<RecordMetadata>> each : sent.entrySet()) {
            RecordMetadata placed = each.getValue().get();
            rows.add("[" + placed.partition() + "," + placed.offset() + ",\"" + each.getKey() + "\"]");
        }
        return rows;
    }

    static void line(String kind, List<String> placed, List<String> aborted) {
        System.out.println("{\"kind\":\"" + kind + "\",\"placed\":[" + String.join(",", placed) + "],\"aborted\":["
            + String.join(",", aborted) + "]}");
    }

    public static void main(String[] argv) throws Exception {
        String topic = argv[1];
        for (Map.Entry<String, Map<String, String>> kind : KINDS.entrySet()) {
            try (var producer = new KafkaProducer<String, String>(configuration(argv, kind.getValue()))) {
                line(kind.getKey(), send(producer, topic, kind.getKey(), 0, RECORDS), List.of());
            }
        }
        List<String> placed = new ArrayList<>(), aborted = new ArrayList<>();
        var transactional = Map.of("transactional.id", "transactions-" + topic);
        try (var producer = new KafkaProducer<String, String>(configuration(argv, transactional))) {
            producer.initTransactions();
            int each = RECORDS / TRANSACTIONS;
            for (int number = 0; number < TRANSACTIONS; number++) {
                boolean isAborted = number % 3 == 2;
                producer.beginTransaction();
                List<String> rows = send(producer, topic, "transactional", number * each, (number + 1) * each);
                producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(number + 1)),
                    new ConsumerGroupMetadata("transactions-" + topic));
                if (isAborted) producer.abortTransaction();
                else producer.commitTransaction();
                (isAborted ? aborted : placed).addAll(rows);
            }
        }
        line("transactional", placed, aborted);
    }
}
