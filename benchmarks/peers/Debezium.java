import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;

/** Debezium's embedded engine: so many events of rows as lines in a file. */
public class Debezium {
    private static long seen = 0;

    /** Arguments: a file of properties, the file of lines, how many, and of MySQL the offset to begin at. */
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.load(new FileReader(arguments[0]));
        if (arguments.length > 3) {
            begin(settings.getProperty("offset.storage.file.filename"), arguments[3]);
        }
        long rows = Long.parseLong(arguments[2]);
        OutputStream lines = new BufferedOutputStream(new FileOutputStream(arguments[1]), 1 << 20);
        DebeziumEngine.create(Json.class)
            .using(settings)
            .using((success, message, error) -> {
                System.err.println(message + " " + error);
                Runtime.getRuntime().halt(1);
            })
            .notifying((events, committer) -> {
                write(events, lines);
                for (var event : events) {
                    committer.markProcessed(event);
                }
                committer.markBatchFinished();
                if (seen >= rows) {
                    Runtime.getRuntime().halt(0);
                }
            })
            .build()
            .run();
    }

    private static void write(List<ChangeEvent<String, String>> events, OutputStream lines) {
        try {
            for (var event : events) {
                if (event.value() != null && event.destination().endsWith(".bench")) {  // Others tell of the schema.
                    lines.write(event.value().getBytes(StandardCharsets.UTF_8));
                    lines.write('\n');
                    seen++;
                }
            }
            lines.flush();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Writes the file that FileOffsetBackingStore reads. */
    private static void begin(String path, String offset) throws IOException {
        byte[] key = "[\"bench\",{\"server\":\"bench\"}]".getBytes(StandardCharsets.UTF_8);
        try (var file = new ObjectOutputStream(new FileOutputStream(path))) {
            file.writeObject(new HashMap<>(Map.of(key, offset.getBytes(StandardCharsets.UTF_8))));
        }
    }
}
