# SPDX-License-Identifier: MIT
# Real programs: interpreters and JITs. Each function prepares an empty folder and calls `same`; see
# engine_suites.sh.
# shellcheck shell=bash disable=SC2034,SC2016,SC2154 # the sourcing script's; other dollars

real_python3()
{
	has python3 || return
	cat >work.py <<-'END'
		import ctypes, multiprocessing, re, signal, sqlite3, subprocess, sys
		import threading, zlib
		def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
		made = {}
		def work(k): made[k] = fib(10 + k) ^ zlib.crc32(b"%d" % k * 1000)
		threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
		for t in threads: t.start()
		for t in threads: t.join()
		print(sorted(made.items()))
		numbers = (ctypes.c_int * 50)(*[(i * 7919) % 101 for i in range(50)])
		kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int),
		ctypes.POINTER(ctypes.c_int))
		ctypes.CDLL(None).qsort(numbers, 50, 4, kind(lambda a, b: a[0] - b[0]))
		print(list(numbers))
		seen = []
		signal.signal(signal.SIGALRM, lambda *a: seen.append(1))
		signal.setitimer(signal.ITIMER_REAL, 0.001)
		while not seen: fib(5)
		print(subprocess.run(["sh", "-c", "echo child; exit 3"], capture_output=True))
		base = sqlite3.connect(":memory:")
		base.create_function("twice", 1, lambda x: 2 * x)
		print(base.execute("select sum(twice(value)) from json_each('[1,2,3]')").fetchall())
		print(re.findall(r"(\w)(?=\1)", "aabbccddee" * 3))
		if __name__ == "__main__":
		    with multiprocessing.Pool(3) as pool: print(pool.map(fib, range(12)))
		    sys.exit(5)
	END
	same python3 -S work.py
}

real_pypy3()
{
	has pypy3 || return
	cat >work.py <<-'END'
		import threading, subprocess
		class A:
		    def __init__(self, n): self.n = n
		    def step(self, k): return (self.n * k + 7) % 1000003
		def loop(n, out):
		    a, s = A(n), 1
		    for i in range(200000): s = a.step(s) + (i & 3)
		    try: [][s]
		    except IndexError: s += 1
		    out.append(s)
		out = []
		threads = [threading.Thread(target=loop, args=(n, out)) for n in range(1, 5)]
		for t in threads: t.start()
		for t in threads: t.join()
		print(sorted(out), subprocess.check_output(["echo", "child"]))
	END
	same pypy3 work.py
}

real_lua()
{
	has lua5.4 || return
	cat >work.lua <<-'END'
		local words, text = {}, string.rep("the quick brown fox ", 200)
		for word in text:gmatch("%a+") do words[word] = (words[word] or 0) + 1 end
		local names = {}
		for name in pairs(words) do names[#names + 1] = name .. words[name] end
		table.sort(names)
		print(table.concat(names, " "))
		local function walk(n) if n > 0 then walk(n - 1) coroutine.yield(n) end end
		local sum = 0
		for n in coroutine.wrap(function() walk(150) end) do sum = sum + n end
		print(sum, pcall(error, { 1 }), select("#", table.unpack(names)))
		local made = {}
		for i = 1, 60000 do made[i] = setmetatable({ i },
		{ __gc = function() sum = sum + 1 end }) made[i - 300] = nil end
		made = nil collectgarbage()
		print(sum, string.format("%.14g", math.pi ^ 7), load("return 6 * 7")())
	END
	twice lua5.4 work.lua
}

real_luajit()
{
	has luajit || return
	cat >work.lua <<-'END'
		local ffi = require "ffi"
		ffi.cdef [[ void qsort(void *, size_t, size_t, int (*)(const int *, const int *));
		int getpid(void); ]]
		local numbers = ffi.new("int[200]")
		for i = 0, 199 do numbers[i] = i * 7919 % 211 end
		local compare = ffi.cast("int (*)(const int *, const int *)", function(a,
		b) return a[0] - b[0] end)
		ffi.C.qsort(numbers, 200, 4, compare)
		print(numbers[0], numbers[100], numbers[199])
		local s = 0
		for i = 1, 3000000 do s = (s * 31 + i) % 1000003 end
		print(s)
		local function walk(n) if n > 0 then walk(n - 1) coroutine.yield(n) end end
		for k = 1, 300 do
		for n in coroutine.wrap(function() walk(20) end) do s = s + n end end
		for k = 1, 20000 do local fine,
		why = pcall(function() if k % 3 == 0 then error { k } end return k end)
			s = s + (fine and why or why[1]) end
		print(s, ("x"):rep(10):gsub("x", "yz"))
		for k = 1, 200 do s = s + load("local a = ... return a * " .. k)(3) end
		print(s)
	END
	same luajit work.lua
}

real_perl()
{
	has perl || return
	cat >work.pl <<-'END'
		use strict; use warnings;
		my %count; my $text = join " ", map { "w" . ($_ * 7919 % 997) } 1 .. 20000;
		$count{$1}++ while $text =~ /\b(w(?:\d)(?=\d*5)\d*)\b/g;
		print "$_ $count{$_}\n" for (sort { $count{$b} <=> $count{$a} || $a cmp $b }
		keys %count)[0 .. 9];
		local $SIG{USR1} = sub { print "a signal\n" }; kill USR1 => $$;
		eval { die { code => 7 } }; print "died of $@->{code}\n";
		$| = 1; my $child = fork // die; exit 3 unless $child; waitpid $child, 0;
		print $? >> 8, "\n";
		open my $pipe, "-|", "echo from a pipe" or die; print <$pipe>; close $pipe;
		print length(pack("w*", 1 .. 3000)), " ", join(",", unpack("(A2)*", "abcdef")),
		"\n";
		sub deep { my $n = shift; $n ? 1 + deep($n - 1) : 0 } no warnings;
		print deep(3000), "\n";
	END
	twice perl work.pl
}

real_node()
{
	has node || return
	cat >work.js <<-'END'
		const { Worker, isMainThread, parentPort } = require('worker_threads');
		const { execSync } = require('child_process');
		function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }
		if (!isMainThread) parentPort.postMessage(fib(20));
		else {
			const made = Array.from({ length: 300 }, (_, i) => new Function('x',
			`return x * ${i} % 97`));
			let sum = 0;
			for (let k = 0; k < 100;
			k++) for (const one of made) sum = (sum + one(k)) % 1000003;
			let caught = 0;
			for (let i = 0; i < 5000; i++) try { if (i % 3 === 0) throw new Error(i);
			caught += i } catch (e) { caught-- }
			console.log(sum, caught, fib(22), 'abcabc'.replace(/(b)(c)/g, '$2$1'),
			JSON.stringify([...Array(5).keys()]));
			const bytes = new Uint8Array([0,97,115,109,1,0,0,0,1,7,1,96,2,127,127,
				1,127,3,2,1,
				0,7,7,1,3,97,100,100,0,
			0,10,9,1,7,0,
				32,0,32,1,106,11]);
			const add =
			new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports.add;
			let total = 0; for (let i = 0; i < 100000; i++) total = add(total, i);
			console.log(total, execSync('echo child; exit 0').toString());
			new Worker(__filename).on('message', value => console.log('worker', value));
		}
	END
	same node work.js
}

real_ruby()
{
	has ruby || return
	cat >work.rb <<-'END'
		r = Ractor.new { (1..2000).sum } rescue nil
		s = 0
		50000.times { |i| begin; raise ArgumentError if i % 7 == 0; s += i;
		rescue ArgumentError; s -= 1; end }
		t = 4.times.map { |k| Thread.new { (1..20000).reduce { |a,
		b| (a * 31 + b) % 1000003 } + k } }
		puts s, t.map(&:value).inspect, r.take
		e = Enumerator.new { |y| a, b = 0, 1; loop { y << a; a, b = b, a + b } }
		puts e.lazy.select(&:even?).first(12).inspect
		puts `echo child`, $?.exitstatus
		pid = fork { exit! 3 }
		Process.wait pid
		puts $?.exitstatus, "text".gsub(/t(.)/) { $1.upcase }
	END
	same ruby --disable-gems -W0 work.rb
	same ruby --disable-gems -W0 --yjit work.rb
}

real_php()
{
	has php || return
	cat >work.php <<-'END'
		<?php
		function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); }
		$s = 0;
		for ($i = 0; $i < 300000; $i++) $s = ($s * 31 + $i) % 1000003;
		for ($i = 0; $i < 5000; $i++) try { if ($i % 3) throw new Exception("x$i"); }
		catch (Exception $e) { $s += strlen($e->getMessage()); }
		function g($n) { for ($i = 0; $i < $n; $i++) yield $i => $i * $i; }
		foreach (g(1000) as $k => $v) $s += $k ^ $v;
		echo fib(21), " $s ", preg_replace_callback('/(\d+)/', fn($m) => $m[1] * 2,
		"a1b22c333"), " ", md5(serialize(range(1, 99))), "\n";
		echo shell_exec("echo child");
	END
	same php -n work.php
	same php -n -d zend_extension=opcache -d opcache.enable_cli=1 \
		-d opcache.jit_buffer_size=16M -d opcache.jit=1255 work.php
}

real_java()
{
	has javac || return
	same sh -c 'javac -d . "$1"' - "$source_dir/tests/real/Storm.java"
	javac -d . "$source_dir/tests/real/Storm.java"
	normal='/ rounds$/d'
	same java -cp . Storm "$storm_seconds"
	same java -XX:+UseSerialGC -cp . Storm "$storm_seconds"
	same java -XX:+UseParallelGC -cp . Storm "$storm_seconds"
	java -XX:+UseZGC -version >/dev/null 2>&1 &&
	same java -XX:+UseZGC -cp . Storm "$storm_seconds"
	normal=
}

real_sbcl()
{
	has sbcl || return
	cat >work.lisp <<-'END'
		(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
		(print (fib 22))
		(defvar *s* 0)
		(dotimes (i 300000) (setf *s* (logand (+ (* *s* 31) (length (list i i))) 1048575)))
		(print *s*)
		(dotimes (i 300) (handler-case (if (zerop (mod i 3)) (car i) (error "x")) (error ()
		(incf *s*))))
		(print *s*)
		(print (loop for k below 40 sum (funcall (compile nil `(lambda (x) (* x ,k))) 3)))
		(gc :full t)
		#+sb-thread (print (mapcar #'sb-thread:join-thread
		  (loop for k below 4 collect (let ((k k)) (sb-thread:make-thread (lambda ()
		(fib (+ 12 k))))))))
		(terpri)
	END
	same sbcl --script work.lisp
}

real_guile()
{
	has guile || return
	cat >work.scm <<-'END'
		(use-modules (ice-9 threads))
		(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
		(define s 0)
		(do ((i 0 (+ i 1))) ((= i 200000)) (set! s (modulo (+ (* s 31) i) 1000003)))
		(display (list (fib 20) s (call/cc (lambda (k) (for-each (lambda (x) (if (> x 3)
		(k x))) '(1 2 5 7)) 0))))
		(display (map (lambda (n) (catch #t (lambda () (if (odd? n) (car n) n))
		(lambda e 'caught))) (iota 9)))
		(display (par-map fib '(10 11 12 13)))
	END
	same guile --no-auto-compile -q work.scm
}

real_racket()
{
	has racket || return
	cat >work.rkt <<-'END'
		#lang racket/base
		(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
		(define p (let loop ([i 0] [s 0]) (if (= i 200000) s (loop (+ i 1)
		(modulo (+ (* s 31) i) 1000003)))))
		(printf "~a ~a ~a\n" (fib 20) p
		(with-handlers ([exn:fail? (lambda (e) (exn-message e))]) (car 7)))
		(define ch (make-channel))
		(for ([k 5]) (thread (lambda () (channel-put ch (fib (+ 8 k))))))
		(displayln (for/sum ([k 5]) (channel-get ch)))
		(displayln (for/list ([m (regexp-match* #rx"[a-c]+" "abxxcay")]) m))
	END
	same racket work.rkt
}

real_chez()
{
	has chezscheme || has scheme || return
	cat >work.ss <<-'END'
		(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
		(display (list (fib 21) (call/1cc (lambda (k) (dynamic-wind void (lambda ()
		(k 7)) void)))))
		(display (let loop ([i 0] [s 0]) (if (= i 300) s (loop (+ i 1)
		(+ s ((eval `(lambda (x) (* x ,i))) 3))))))
		(collect) (newline)
		(display (guard (e [#t 'caught]) (vector-ref (vector 1) 3)))
	END
	same "$(command -v chezscheme scheme | head -n 1)" --script work.ss
}

real_ocaml()
{
	has ocaml ocamlopt || return
	cat >work.ml <<-'END'
		exception Found of int
		let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
		module M = Map.Make (String)
		let () =
		  let m = List.fold_left (fun m i -> M.add (string_of_int (i * 7919 mod 997)) i m)
		M.empty (List.init 3000 Fun.id) in
		  let s = ref 0 in
		  for i = 1 to 20000 do try if i mod 3 = 0 then raise (Found i) else s := !s + i
		with Found n -> s := !s - n done;
		  let rec deep n = if n = 0 then 0 else 1 + deep (n - 1) in
		  let d = try deep 100_000_000 with Stack_overflow -> -1 in
		  Printf.printf "%d %d %d %d %b\n" (fib 22)
		(M.cardinal m) !s d (try ignore [||].(3); false with Invalid_argument _ -> true)
	END
	same ocaml work.ml
	same sh -c 'ulimit -s 8192; ocamlopt -o work work.ml && ./work'
}

real_swipl()
{
	has swipl || return
	cat >work.pl <<-'END'
		nrev([], []). nrev([H|T], R) :- nrev(T, S), append(S, [H], R).
		queens(N, Q) :- numlist(1, N, L), permutation(L, Q), safe(Q).
		safe([]). safe([Q|Qs]) :- no(Q, Qs, 1), safe(Qs).
		no(_, [], _). no(Q, [A|As], D) :- abs(Q - A) =\= D, D1 is D + 1, no(Q, As, D1).
		go :- numlist(1, 300, L), nrev(L, R), last(R, X), queens(6, Q),
		catch(atom_length(_, _), error(E, _), true),
		  findall(Y, (thread_create(true, T), thread_join(T, Y)), Ys), write([X, Q, E,
		Ys]), nl.
	END
	same swipl -q -g go -t halt work.pl
}

real_erlang()
{
	has erl || return
	same erl -noshell -noinput +S 2 -eval 'P = self(), [spawn(fun() -> P ! {I,
	lists:foldl(fun(X, A) -> (A * 31 + X) rem 1000003 end, I, lists:seq(1, 400))} end)
		|| I <- lists:seq(1, 50)], R = [receive {I, V} -> {I, V} end ||
		I <- lists:seq(1, 50)],
		C = [catch 1 div (I rem 2) ||
		I <- [1, 2]], io:format("~p ~p~n", [R, [is_tuple(X) || X <- C]]), halt(3).'
}

real_elixir()
{
	has elixir || return
	same elixir -e 'IO.inspect(1..40
		|> Enum.map(&Task.async(fn -> Enum.sum(1..(&1 * 100)) end))
			|> Enum.map(&Task.await(&1, 100_000)))'
}

real_mono()
{
	has mono mcs || return
	cat >work.cs <<-'END'
		using System; using System.Collections.Generic; using System.Linq;
		using System.Threading.Tasks;
		class Node { public int v; public Node next; }
		class Work {
			static int Fib(int n) { return n < 2 ? n : Fib(n - 1) + Fib(n - 2); }
			static long Faults(int k) {
				long s = 0; Node none = null; int[] a = new int[4]; int zero = 0;
				for (int i = 0; i < 400; i++) try {
					if (i % 3 == 0) s += none.v;
					else if (i % 3 == 1) s += i / zero; else s += a[i % 6];
				} catch (NullReferenceException) { s += 3; }
				catch (DivideByZeroException) { s += 5; }
				catch (IndexOutOfRangeException) { s += 7; }
				return s + k;
			}
			static void Main() {
				Console.WriteLine(Fib(22));
				Console.WriteLine(Enumerable.Range(0,
				8).AsParallel().Select(k => Faults(k)).Sum());
				var d = new Dictionary<string, int>();
				for (int i = 0; i < 20000; i++) { d["k" + i % 97] = i; }
				GC.Collect();
				Console.WriteLine(d.Values.Sum());
			}
		}
	END
	same sh -c 'mcs -out:work.exe work.cs && mono work.exe'
	mcs -out:work.exe work.cs
	same mono work.exe
}

real_ghc()
{
	has ghc || return
	cat >work.hs <<-'END'
		import Control.Concurrent
		import Control.Exception
		import qualified Data.Map as M
		fib :: Int -> Integer
		fib n = if n < 2 then toInteger n else fib (n - 1) + fib (n - 2)
		main :: IO ()
		main = do
		  vs <- mapM (\k -> do { v <- newEmptyMVar;
		_ <- forkIO (putMVar v $! fib (14 + k)); return v }) [1 .. 8]
		  rs <- mapM takeMVar vs
		  print rs
		  rs' <- mapM (\k -> (evaluate (10 `div` (k `mod` 3)) `catch`
		    \e -> return (if e == DivideByZero then -1 else -2)))
		    [1 .. 9 :: Int]
		  print (rs', M.size (M.fromList [(i * 7919 `mod` 997, i)
		    | i <- [1 .. 5000 :: Int]]))
	END
	same sh -c 'ghc -v0 -O -threaded -rtsopts work.hs && ./work +RTS -N2'
}

real_r()
{
	has Rscript || return
	cat >work.R <<-'END'
		f <- function(n) if (n < 2) n else f(n-1) + f(n-2)
		print(f(16))
		set.seed(1)
		m <- matrix(runif(400), 20)
		print(round(sum(solve(m)), 6))
		print(tryCatch(log(-1:"a"), error = function(e) "caught", warning = function(w) "warned"))
		print(summary(lm(dist ~ speed, cars))$r.squared)
		print(unlist(parallel::mclapply(1:4, f, mc.cores = 2)))
	END
	same Rscript --vanilla work.R
}

real_octave()
{
	has octave-cli || return
	same octave-cli --norc --no-window-system --eval 'A = reshape(mod((1:400)*7919, 1009), 20,
	20); printf("%.6g\n", det(A), sum(eig(A*A'"'"')));
		s = 0; for i = 1:3000 try if mod(i, 3) error("x"); end; s += i; catch s -= 1; end;
		end; disp(s); disp(system("echo child"));'
}

real_maxima()
{
	has maxima || return
	same maxima --very-quiet --batch-string='integrate(1/(x^4+1),x); factor(x^12-1);
	errcatch(1/0); solve(x^3-6*x^2+11*x-6,x); bfloat(%pi), fpprec:50; sum(1/k^2,k,1,300)-0;'
}

real_gp()
{
	has gp || return
	same sh -c 'echo "factor(2^101-1); ellap(ellinit([0,-1,1,0,0]),997);
	print(polroots(x^5-x-1)); iferr(1/0,E,print(1)); print(primepi(10^6))" | gp -q -f'
}

real_gap()
{
	has gap || return
	echo 'Print(Size(SymmetricGroup(12)), NrConjugacyClasses(AlternatingGroup(8)), "\n"); quit;' >work.g
	same sh -c 'gap -q -A <work.g'
}

real_emacs()
{
	has emacs || return
	same emacs --batch -Q --eval '(progn (dotimes (i 2000)
	(condition-case nil (if (= 0 (% i 3)) (error "x")) (error nil)))
		(princ (mapconcat (function number-to-string) (number-sequence 1 50) ","))
		(princ (shell-command-to-string "echo child"))
		(with-temp-buffer (insert "int main ( ) {return 1;}") (c-mode)
		(indent-region (point-min) (point-max)) (princ (buffer-string)))
		(princ (funcall (byte-compile (lambda (x) (* x 6))) 7)))'
}

real_tclsh()
{
	has tclsh || return
	cat >work.tcl <<-'END'
		proc fib n { expr {$n < 2 ? $n : [fib [expr {$n - 1}]] + [fib [expr {$n - 2}]]} }
		puts [fib 17]
		for {set i 0} {$i < 3000} {incr i} {
			if {[catch {if {$i % 3} {error x$i}} why]} { append s [string length $why] }
		}
		puts [string length $s]
		puts [exec sh -c "echo child"]
		coroutine c apply {{} { yield; for {set i 0} {$i < 9} {incr i} { yield $i } }}
		puts [list [c] [c] [c] [lsort -integer {5 3 9 1}] [regexp -all -inline {\w+} abc]]
	END
	same tclsh work.tcl
}

real_awk()
{
	local awk
	has gawk || has mawk || return
	for awk in gawk mawk; do
		command -v $awk >/dev/null || continue
		same $awk 'function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) }
		BEGIN { print f(19); for (i = 0; i < 20000; i++) w["k" i % 97] += i
			for (i = 0; i < 97; i++) s = s " " w["k" i]; print s
			"echo child" | getline x; print x
			print substr("hello", 2, 3), sprintf("%.3f %c", 3.14159, 65)
			while (("seq 50 | sort -r" | getline y) > 0) t = t y; print t; exit 3 }'
	done
}

real_jq()
{
	has jq || return
	same jq -nc '[range(3000)] | map(select(. % 7 == 0) | {a: ., b: (. * . | tostring)}) |
	group_by(.a % 3) | map(length), (try error("x") catch .), ([limit(9; repeat(1))] | add)'
}

real_bc()
{
	has bc || return
	printf '%s\n' 'scale=200; 4*a(1); e(1)' 'define f(n) {' 'if (n < 2) return (n)' \
		'return (f(n-1) + f(n-2))' '}' 'f(15); 2^500' >work.bc
	same bc -lq work.bc
}

real_lisps()
{
	local one
	has clisp || has ecl || return
	echo '(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (print (fib 17))
	(print (handler-case (car 7) (error () :caught)))
	(print (loop repeat 500 collect (gensym) into l finally (return (length l))))
	(print (expt 7 99)) (terpri)' >work.lisp
	for one in "clisp -q -norc" "ecl --norc --shell"; do
		command -v "${one%% *}" >/dev/null || continue
		# shellcheck disable=SC2086 # words
		same $one work.lisp
	done
}

real_mls()
{
	has poly || return
	same sh -c 'echo "fun fib n = if n < 2 then n else fib (n-1) + fib (n-2); exception E;
	val a = fib 22; val b = (raise E) handle E => 7; val c = (hd []) handle Empty => 9;
	PolyML.fullGC ();" | poly -q'
}

real_gforth()
{
	has gforth || return
	same gforth -e ': fib dup 2 < if exit then dup 1- recurse swap 2 - recurse + ;
	22 fib . : t ( n -- ) 3 mod 0= if 7 throw then ;
	: u 0 300 0 do i ['"'"'] t catch if drop 1+ then loop . ; u cr bye'
}

real_tcc()
{
	has tcc || return
	cat >work.c <<-'END'
		#include <stdio.h>
		#include <stdlib.h>
		#include <sys/wait.h>
		#include <unistd.h>
		#include <string.h>
		#include <sys/socket.h>
		static int count, status;
		static int fib(int n) { count++; return n < 2 ? n : fib(n - 1) + fib(n - 2); }
		static int order(const void *a,
		const void *b) { return *(const int *)a - *(const int *)b; }
		int main(void) {
			int n[50], i, s[2]; char text[20] = "";
			for (i = 0; i < 50; i++) n[i] = i * 7919 % 101;
			qsort(n, 50, sizeof *n, order);
			printf("%d %d %d %d\n", fib(20), count, n[0], n[49]);
			fflush(stdout);
			if (fork() == 0) _exit(3);
			wait(&status);
			socketpair(AF_UNIX, SOCK_DGRAM, 0, s);
			send(s[0], "text", 5, 0);
			recv(s[1], text, sizeof text, 0);
			printf("%d %s\n", status >> 8, text);
			return 7;
		}
	END
	same tcc -run work.c
	same sh -c 'tcc -o work work.c && ./work'
}
