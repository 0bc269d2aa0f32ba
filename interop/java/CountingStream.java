import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * An instance of a Kafka Streams application that counts the records of each key, by way of a repartition topic and a
 * store with a changelog. Arguments are the bootstrap servers, the application's id, the topic that it reads, the one
 * that it writes, the folder of its state, and properties as KEY=VALUE. SIGTERM closes it.
 */
public class CountingStream {
    static Consumer<KafkaStreams> prepare = streams -> {};

    public static void main(String[] argv) throws Exception {
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, argv[0]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, argv[1]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, argv[4]);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "200");
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        for (int i = 5; i < argv.length; i++) config.put(argv[i].split("=", 2)[0], argv[i].split("=", 2)[1]);

        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(argv[2], Consumed.with(Serdes.String(), Serdes.String()))
            .selectKey((key, value) -> key + "-counted")
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(argv[3], Produced.with(Serdes.String(), Serdes.String()));

        Topology topology = builder.build();
        System.out.println(topology.describe());
        KafkaStreams streams = new KafkaStreams(topology, config);
        streams.setStateListener((now, before) -> System.out.println("state " + now + " " + System.currentTimeMillis()));
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close();
            closed.countDown();
        }));
        prepare.accept(streams);
        streams.start();
        closed.await();
    }
}
