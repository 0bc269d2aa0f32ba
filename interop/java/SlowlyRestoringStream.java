import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.StandbyUpdateListener;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.TaskId;

/**
 * CountingStream whose stores are restored, and whose copies catch up, at a bounded rate, as with large state: the
 * property restored.records.per.second of the system says how fast.
 */
public class SlowlyRestoringStream {
    static final long RATE = Long.getLong("restored.records.per.second", 1000);

    static void take(long records) {
        try {
            Thread.sleep(records * 1000 / RATE);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    static class Restored implements StateRestoreListener {
        public void onRestoreStart(TopicPartition partition, String store, long start, long end) {}

        public void onBatchRestored(TopicPartition partition, String store, long end, long records) {
            take(records);
        }

        public void onRestoreEnd(TopicPartition partition, String store, long records) {}
    }

    static class Copied implements StandbyUpdateListener {
        public void onUpdateStart(TopicPartition partition, String store, long start) {}

        public void onBatchLoaded(
            TopicPartition partition, String store, TaskId task, long end,
            long records, long last
        ) {
            take(records);
        }

        public void onUpdateSuspended(TopicPartition partition, String store, long end, long last, SuspendReason why) {}
    }

    public static void main(String[] argv) throws Exception {
        CountingStream.prepare = streams -> {
            streams.setGlobalStateRestoreListener(new Restored());
            streams.setStandbyUpdateListener(new Copied());
        };
        CountingStream.main(argv);
    }
}
