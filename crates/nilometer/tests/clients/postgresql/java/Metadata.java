import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Properties;

/** pgJDBC, as Debian has it. What is stated here PostgreSQL 15 says too: clients.py --reference. */
public class Metadata {
    interface Test {
        Object run() throws Exception;
    }

    static int passed;
    static int failed;

    static void test(String name, Object expected, Test test) {
        try {
            Object found = test.run();
            if (expected.equals(found)) {
                passed++;
                return;
            }
            System.out.println("FAIL " + name + ": expected " + expected + ", found " + found);
        } catch (Exception error) {
            System.out.println("FAIL " + name + ": " + error);
        }
        failed++;
    }

    /** These columns of all rows. */
    static List<String> rows(ResultSet rows, String... columns) throws SQLException {
        List<String> found = new ArrayList<>();
        while (rows.next()) {
            List<String> values = new ArrayList<>();
            for (String column : columns) {
                values.add(rows.getString(column));
            }
            found.add(String.join("|", values));
        }
        return found;
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("user", System.getenv("PGUSER"));
        if (System.getenv("PGPASSWORD") != null) {
            properties.setProperty("password", System.getenv("PGPASSWORD"));
        }
        String address = System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");
        Connection connection = DriverManager.getConnection("jdbc:postgresql://" + address, properties);
        Statement statement = connection.createStatement();
        statement.execute("DROP TABLE IF EXISTS jdbc");
        statement.execute("CREATE TABLE jdbc (id bigint, name text NOT NULL, v double precision, PRIMARY KEY (id), UNIQUE (name))");
        statement.execute("INSERT INTO jdbc VALUES (1, 'a', 1.5)");
        DatabaseMetaData data = connection.getMetaData();

        test("the version is one of PostgreSQL", 15, data::getDatabaseMajorVersion);
        test("a table is listed", Arrays.asList("public|jdbc|TABLE"),
                () -> rows(data.getTables(null, "public", "jdbc", new String[] {"TABLE"}), "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE"));
        test("a table that is not there is not", Collections.emptyList(),
                () -> rows(data.getTables(null, "public", "nowhere", null), "TABLE_NAME"));
        test("columns have types", Arrays.asList("id|int8|NO", "name|text|NO", "v|float8|YES"),
                () -> rows(data.getColumns(null, "public", "jdbc", "%"), "COLUMN_NAME", "TYPE_NAME", "IS_NULLABLE"));
        test("the primary key is known", Arrays.asList("id|1|jdbc_pkey"),
                () -> rows(data.getPrimaryKeys(null, "public", "jdbc"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"));
        test("indexes are known", Arrays.asList("jdbc_name_key|f|name", "jdbc_pkey|f|id"), () -> {
            List<String> indexes = rows(data.getIndexInfo(null, "public", "jdbc", false, false), "INDEX_NAME", "NON_UNIQUE", "COLUMN_NAME");
            Collections.sort(indexes);
            return indexes;
        });
        test("nothing is imported", Collections.emptyList(), () -> rows(data.getImportedKeys(null, "public", "jdbc"), "FKCOLUMN_NAME"));
        test("the schema is listed", true, () -> rows(data.getSchemas(), "TABLE_SCHEM").contains("public"));
        test("the database is listed", true, () -> rows(data.getCatalogs(), "TABLE_CAT").contains(System.getenv("PGDATABASE")));
        test("types are listed", true, () -> rows(data.getTypeInfo(), "TYPE_NAME").containsAll(Arrays.asList("int8", "text", "timestamptz")));
        test("the best row identifier is the key", Arrays.asList("id"),
                () -> rows(data.getBestRowIdentifier(null, "public", "jdbc", DatabaseMetaData.bestRowSession, true), "COLUMN_NAME"));
        test("functions can be asked for", Collections.emptyList(), () -> rows(data.getFunctions(null, "nowhere", "%"), "FUNCTION_NAME"));
        test("keywords can be asked for", true, () -> data.getSQLKeywords().contains("returning"));
        test("a prepared query is described and answered", Arrays.asList("1|a|1.5"), () -> {
            PreparedStatement query = connection.prepareStatement("SELECT id, name, v FROM jdbc WHERE id = ?");
            query.setLong(1, 1);
            return rows(query.executeQuery(), "id", "name", "v");
        });
        test("a result knows its types", Arrays.asList("int8", "float8"), () -> {
            ResultSetMetaData columns = statement.executeQuery("SELECT id, v FROM jdbc").getMetaData();
            return Arrays.asList(columns.getColumnTypeName(1), columns.getColumnTypeName(2));
        });
        test("the connection is alive", true, () -> connection.isValid(10));
        test("an error has its code", "42P01", () -> {
            try {
                statement.executeQuery("SELECT * FROM nowhere");
                return "none";
            } catch (SQLException error) {
                return error.getSQLState();
            }
        });
        connection.close();
        System.out.println("# pass " + passed + "\n# fail " + failed);
        System.exit(failed == 0 ? 0 : 1);
    }
}
