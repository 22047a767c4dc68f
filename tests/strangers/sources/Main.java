import java.util.*;

public class Main {
    public static void main(String[] a) {
        Map<Integer, List<String>> m = new TreeMap<>();
        for (int i = 0; i < 200000; i++)
            m.computeIfAbsent(i % 977, k -> new ArrayList<>()).add("text" + i);
        System.out.println(m.size());
    }
}
