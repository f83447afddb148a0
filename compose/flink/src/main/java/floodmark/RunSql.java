package floodmark;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.TableEnvironment;

/**
 * Runs a file of SQL statements, or with --sql the statements themselves, on the cluster that `flink run` was told of. Stands in for Flink's SQL client, whose gateway isn't published.
 *
 * A statement ends with a semicolon at the end of a line. SET and BEGIN STATEMENT SET … END are the client's own words; all else is Flink's.
 * Each INSERT outside a statement set is a job of its own.
 */
public final class RunSql {
    private static final Pattern SETTING = Pattern.compile("(?is)SET\\s+'([^']+)'\\s*=\\s*'([^']*)'");
    private static final Pattern BEGIN = Pattern.compile("(?is)BEGIN\\s+STATEMENT\\s+SET");
    private static final Pattern END = Pattern.compile("(?i)END");
    private static final Pattern INSERT = Pattern.compile("(?is)INSERT\\s.*");

    private RunSql() {}

    public static void main(String[] args) throws Exception {
        TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        StatementSet together = null;
        String script = args[0].equals("--sql") ? args[1] : Files.readString(Path.of(args[0]));
        for (String statement : statements(script)) {
            Matcher setting = SETTING.matcher(statement);
            try {
                if (setting.matches()) {
                    tables.getConfig().set(setting.group(1), setting.group(2));
                } else if (BEGIN.matcher(statement).matches()) {
                    together = tables.createStatementSet();
                } else if (END.matcher(statement).matches() && together != null) {
                    together.execute();
                    together = null;
                } else if (together != null && INSERT.matcher(statement).matches()) {
                    together.addInsertSql(statement);
                } else {
                    tables.executeSql(statement);
                }
            } catch (Exception refused) {
                throw new IllegalArgumentException("in this statement:\n" + statement, refused);
            }
        }
        if (together != null) {
            throw new IllegalArgumentException("BEGIN STATEMENT SET without END");
        }
    }

    /** Without comments that fill a line: what is left of one alone would be an empty statement. */
    private static List<String> statements(String script) {
        String code = script.replaceAll("(?m)^\\s*--.*$", "");
        List<String> statements = new ArrayList<>();
        for (String statement : code.split(";\\s*(?:\\R|\\z)")) {
            if (!statement.isBlank()) {
                statements.add(statement.strip());
            }
        }
        return statements;
    }
}
