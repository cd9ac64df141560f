// SPDX-License-Identifier: MIT
// Storm SECONDS [THREADS]: each thread repeats one round of work, and each round must have the
// result of the first. The rounds take exceptions that a JVM makes of faults, garbage, strings,
// shared maps, and locks. The output does not depend on speed.
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;

public class Storm {
	static final class Node {
		Node left, right;
		int value;
		long[] ballast;
	}

	interface Shape {
		long area(int n);
	}

	static final Shape[] shapes = {
		n -> n * 3L, n -> n ^ 0x55L, n -> (long) n * n, n -> n >>> 1, n -> 7L - n
	};
	static final ConcurrentHashMap<String, AtomicLong> shared = new ConcurrentHashMap<>();
	static final ReentrantLock lock = new ReentrantLock();
	static final Object monitor = new Object();
	static long underLock, underMonitor, wrong;
	static final AtomicLong rounds = new AtomicLong();

	static Node grow(int depth, int seed) {
		Node node = new Node();
		node.value = seed;
		node.ballast = new long[seed & 15];
		if (depth > 0) {
			node.left = grow(depth - 1, seed * 31 + 1);
			node.right = grow(depth - 1, seed * 17 + 3);
		}
		return node;
	}

	static long sum(Node node) {
		if (node == null)
			return 0;
		return node.value + node.ballast.length + sum(node.left) * 3 - sum(node.right);
	}

	static int deep(int n) {
		return n == 0 ? 0 : 1 + deep(n - 1);
	}

	static long faults(int seed) {
		Node[] nodes = { new Node(), null, new Node() };
		int[] numbers = new int[5];
		Object thing = "text";
		long result = 0;
		for (int i = 0; i < 300; i++) {
			int k = (i + seed) % 7;
			try {
				switch (k) {
				case 0: result += nodes[i % 3].value; break;
				case 1: nodes[1].left.value = i; break;
				case 2: result += 100 / numbers[i % 5]; break;
				case 3: result += numbers[i % 9]; break;
				case 4:
					result += ((Integer) (i % 2 == 0 ? thing : (Object) i));
					break;
				case 5: result += nodes[i % 3].ballast.length; break;
				default: result += shapes[i % 5].area(i);
				}
			} catch (NullPointerException e) {
				result = result * 5 + 1;
			} catch (ArithmeticException e) {
				result = result * 5 + 2;
			} catch (ArrayIndexOutOfBoundsException e) {
				result = result * 5 + 3;
			} catch (ClassCastException e) {
				result = result * 5 + 4;
			}
		}
		return result;
	}

	static long strings(int seed) {
		StringBuilder text = new StringBuilder();
		Map<String, Integer> words = new HashMap<>();
		for (int i = 0; i < 120; i++) {
			text.append(Integer.toHexString(4096 + i * 7919 + seed));
			text.append(i % 3 == 0 ? ' ' : '-');
		}
		for (String word : text.toString().split("[ -]")) {
			words.merge(word.substring(0, 2), 1, Integer::sum);
		}
		long result = text.toString().replace('a', 'z').hashCode();
		for (Map.Entry<String, Integer> entry : words.entrySet()) {
			result += (long) entry.getKey().hashCode() * entry.getValue();
		}
		return result + String.format("%05d %x %.3f", seed, seed, seed / 7.0).hashCode();
	}

	static long round(int seed, int number) {
		long result = sum(grow(9, seed));
		result = result * 31 + faults(seed);
		result = result * 31 + strings(seed);
		List<Integer> list = new ArrayList<>();
		for (int i = 0; i < 500; i++) {
			list.add((i * 7919 + seed) % 1009);
		}
		list.sort((a, b) -> b - a);
		for (int i = 0; i < list.size(); i += 7) {
			result = result * 7 + shapes[i % 5].area(list.get(i));
		}
		for (int i = 0; i < 40; i++) {
			shared.computeIfAbsent("key" + i % 13, key -> new AtomicLong())
				.incrementAndGet();
			lock.lock();
			try {
				underLock++;
			} finally {
				lock.unlock();
			}
			synchronized (monitor) {
				underMonitor++;
				if (i == 20) {
					monitor.notifyAll();
				}
			}
		}
		if (number % 50 == 0) {
			try {
				result += deep(10_000_000) * 0L;
			} catch (StackOverflowError e) {
				result += 0;
			}
		}
		return result;
	}

	static void work(int seed, long end, long[] results) {
		long first = round(seed, 1);
		for (int number = 0; System.nanoTime() < end; number++) {
			if (round(seed, number) != first) {
				synchronized (monitor) {
					wrong++;
				}
			}
			rounds.incrementAndGet();
		}
		results[seed] = first;
	}

	public static void main(String[] arguments) throws Exception {
		double seconds = Double.parseDouble(arguments[0]);
		int count = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 8;
		long end = System.nanoTime() + (long) (seconds * 1e9), checksum = 0, inMap = 0;
		Thread[] threads = new Thread[count];
		long[] results = new long[count];
		for (int i = 0; i < count; i++) {
			int seed = i;
			Runnable all = () -> work(seed, end, results);
			threads[i] = new Thread(null, all, "storm" + i, 512 << 10);
			threads[i].start();
		}
		for (int i = 0; i < count; i++) {
			threads[i].join();
			checksum = checksum * 31 + results[i];
		}
		for (AtomicLong value : shared.values()) {
			inMap += value.get();
		}
		long due = (rounds.get() + count) * 40;
		System.out.println("checksum " + checksum + " wrong " + wrong + " map " +
				(inMap == due) + " lock " + (underLock == due) + " monitor " +
				(underMonitor == due));
		System.err.println(rounds.get() + " rounds");
	}
}
