import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads messages with the classes that Apache Kafka generates from its schemas, and writes them again.
 * One message a line: its name, its version, its bytes in hexadecimal. One answer a line: the bytes, or what went wrong.
 */
public class Rewriter {
    static final String[] PLACES = {
        "org.apache.kafka.common.message.%sData", "org.apache.kafka.common.message.%s",
        "org.apache.kafka.coordinator.group.generated.%s", "org.apache.kafka.coordinator.transaction.generated.%s"
    };

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ", -1);
            try {
                System.out.println(rewritten(words[0], Short.parseShort(words[1]), HexFormat.of().parseHex(words[2])));
            } catch (Exception error) {
                System.out.println("! " + error.toString().replace('\n', ' '));
            }
        }
    }

    static String rewritten(String name, short version, byte[] bytes) throws Exception {
        Message message = empty(name);
        ByteBufferAccessor given = new ByteBufferAccessor(ByteBuffer.wrap(bytes));
        message.read(given, version);
        if (given.remaining() > 0) {
            return "! " + given.remaining() + " bytes were not read";
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBufferAccessor written = new ByteBufferAccessor(ByteBuffer.allocate(message.size(cache, version)));
        message.write(written, cache, version);
        written.flip();
        byte[] again = new byte[written.remaining()];
        written.buffer().get(again);
        return HexFormat.of().formatHex(again);
    }

    static Message empty(String name) throws Exception {
        for (String place : PLACES) {
            try {
                return (Message) Class.forName(String.format(place, name)).getDeclaredConstructor().newInstance();
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new ClassNotFoundException(name);
    }
}
