# SPDX-License-Identifier: MIT
# Real programs: compilers, tools that trace and translate others, archivers, the system's own. See
# engine_suites.sh.
# shellcheck shell=bash disable=SC2034,SC2016,SC2154 # the sourcing script's; other shells' dollars

# threads_c: a program with threads, exceptions by signals, and a child
threads_c()
{
	cat >work.c <<-'END'
		#define _GNU_SOURCE
		#include <pthread.h>
		#include <setjmp.h>
		#include <signal.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <sys/wait.h>
		#include <unistd.h>
		static __thread sigjmp_buf back;
		static void faulted(int signal) { siglongjmp(back, signal); }
		static int depth(int n) { return n ? 1 + depth(n - 1) : 0; }
		static void *work(void *data) {
			volatile long sum = 0;
			for (volatile long i = 0; i < 200; i++)
				if (sigsetjmp(back,
				1) == 0)
				sum += *(volatile int *)(i % 3 ? (void *)&depth : (void *)8) != 0;
				else sum += 5;
			return (void *)(sum + (long)data + depth(50));
		}
		int main(int count, char **words) {
			pthread_t threads[4]; void *result; long sum = 0; int status;
			signal(SIGSEGV, faulted);
			for (long i = 0; i < 4;
			i++) pthread_create(&threads[i], NULL, work, (void *)i);
			for (int i = 0; i < 4; i++) { pthread_join(threads[i], &result);
			sum += (long)result; }
			if (fork() == 0) _exit(3);
			wait(&status);
			printf("%ld %d %d %s\n", sum, WEXITSTATUS(status), count,
			count > 1 ? words[1] : "");
			return 7;
		}
	END
}

real_gcc()
{
	has gcc g++ || return
	command gcc -E "$source_dir/base/elf.c" -I"$source_dir" -I"$source_dir/include" \
		-D_GNU_SOURCE -o work.i
	same gcc -w -O1 -S -o - work.i
	same sh -c 'echo "int main() { try { throw 7; } catch (int n) { return n; } }" >t.cc;
	g++ -o t t.cc; ./t'
}

real_clang()
{
	has clang || return
	threads_c
	same sh -c 'clang -O2 -pthread work.c -o work && ./work a; echo $?;
	clang -O2 -S -emit-llvm -o - work.c | md5sum'
}

real_rustc()
{
	has rustc || return
	cat >work.rs <<-'END'
		use std::{collections::HashMap, panic, process::Command, thread};
		fn fib(n: u64) -> u64 { if n < 2 { n } else { fib(n - 1) + fib(n - 2) } }
		fn main() {
			panic::set_hook(Box::new(|_| {}));
			let threads: Vec<_> = (0..6).map(|k| thread::spawn(move || {
				let mut caught = 0;
				for i in 0..200u64 { if panic::catch_unwind(|| { let v = vec![1, 2,
				3]; v[(i % 5) as usize] }).is_err() { caught += 1 } }
				fib(15 + k) + caught })).collect();
			let sums: Vec<u64> = threads.into_iter()
			.map(|t| t.join().unwrap()).collect();
			let mut map = HashMap::new();
			for i in 0..5000u64 { *map.entry(i * 7919 % 97).or_insert(0) += i }
			println!("{:?} {} {:?}", sums, map.values().sum::<u64>(),
			Command::new("sh").args(["-c", "exit 3"]).status().unwrap().code());
		}
	END
	same sh -c 'rustc -O work.rs && ./work'
}

real_cargo()
{
	has cargo rustc || return
	mkdir -p p/src
	printf '[package]\nname = "p"\nversion = "0.1.0"\nedition = "2021"\n' >p/Cargo.toml
	cat >p/src/main.rs <<-'END'
		fn main() { println!("{}", (1..100u32).map(|x| x * x).sum::<u32>()) }
		#[test]
		fn t() { assert_eq!(1, 1) }
	END
	same sh -c 'cd p && cargo -q --offline run && cargo -q --offline test | grep -c passed'
}

real_go()
{
	has go || return
	cat >work.go <<-'END'
		package main
		import ("fmt"; "os/exec"; "runtime"; "sync")
		type node struct { next *node; v int }
		func fault(i int) (s int) {
			defer func() { if recover() != nil { s = 3 } }()
			var none *node; var a [4]int; zero := 0
			switch i % 3 { case 0: return none.v; case 1: return i / zero;
			default: return a[i%8] }
		}
		func main() {
			var wg sync.WaitGroup; var mu sync.Mutex; sum := 0
			for g := 0; g < 50; g++ { wg.Add(1); go func(g int) { defer wg.Done()
				for i := 0; i < 200; i++ { f := fault(i); mu.Lock(); sum += f + g;
				mu.Unlock(); if i%50 == 0 { runtime.Gosched() } } }(g) }
			wg.Wait(); runtime.GC()
			out, _ := exec.Command("sh", "-c", "echo child").Output()
			fmt.Println(sum, string(out))
		}
	END
	export GOCACHE=$folder/go GO111MODULE=off GOFLAGS='' GOTELEMETRY=off
	go build -o /dev/null work.go # fills the cache: the standard library is built once
	same sh -c 'go build -o work work.go && ./work && go vet work.go'
	go build -o work work.go
	same ./work
}

real_gfortran()
{
	has gfortran || return
	cat >work.f90 <<-'END'
		program p
		 real(16) :: x
		 integer :: i
		 x = 0
		 do i = 1, 3000
		 x = x + 1.0_16 / i
		 end do
		 print *, x
		 !$omp parallel do reduction(+:x)
		 do i = 1, 3000
		 x = x + i
		 end do
		 print *, x
		 call exit(3)
		end program
	END
	same sh -c 'gfortran -O2 -fopenmp work.f90 -o work && ./work'
}

real_gnat()
{
	has gnatmake || return
	cat >work.adb <<-'END'
		with Ada.Text_IO; use Ada.Text_IO;
		procedure Work is
		   task type T is entry Go (N : Integer); end T;
		   Total : Integer := 0; pragma Atomic (Total);
		   function Deep (N : Integer) return Integer is
		(if N = 0 then 0 else 1 + Deep (N - 1));
		   type P is access Integer; None : P;
		   task body T is S : Integer := 0; begin accept Go (N : Integer) do
		      for I in 1 .. 300 loop begin if I mod 3 = 0 then S := None.all;
		else S := S + N / (I mod 2); end if;
		      exception when Constraint_Error => S := S + 1; end; end loop;
		Total := Total + S; end Go; end T;
		   A : array (1 .. 4) of T;
		begin
		   for I in A'Range loop A (I).Go (I); end loop;
		   Put_Line (Integer'Image (Total) & Integer'Image (Deep (100)));
		end Work;
	END
	same sh -c 'gnatmake -q work.adb && ./work'
}

real_fpc()
{
	has fpc || return
	cat >work.pas <<-'END'
		{$mode objfpc}
		program work; uses sysutils; var i, s, z: integer; p: ^integer;
		begin s := 0; z := 0; p := nil;
		for i := 1 to 300 do try if i mod 3 = 0 then s := s + i div z else
		if i mod 3 = 1 then s := s + p^ else s := s + i;
		except on e: EDivByZero do s := s + 1; on e: EAccessViolation do s := s + 2; end;
		writeln(s); end.
	END
	same sh -c 'fpc -v0 work.pas >/dev/null && ./work'
}

real_d()
{
	local compiler
	has ldc2 || has gdc || return
	cat >work.d <<-'END'
		import std.stdio, std.parallelism, std.range, std.algorithm;
		int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }
		void main() { int c; foreach (i;
		0 .. 300) try { if (i % 3 == 0) throw new Exception("x"); c += i; }
		catch (Exception e) { c--; }
		 writeln(c, " ", taskPool.reduce!"a + b"(iota(1000)), " ", f(20)); }
	END
	compiler=$(command -v ldc2 gdc | head -n 1)
	same sh -c "$compiler work.d -O2 -o work 2>/dev/null || $compiler -O2 -of=work work.d;
	./work"
}

real_nim()
{
	has nim || return
	cat >work.nim <<-'END'
		import os, osproc, strutils, tables
		proc f(n: int): int = (if n < 2: n else: f(n - 1) + f(n - 2))
		var t = initTable[int, int]()
		var c = 0
		for i in 0 ..< 3000:
		  t[i mod 97] = i
		  try:
		    if i mod 3 == 0: raise newException(ValueError, "x")
		    c += i
		  except ValueError: dec c
		echo f(20), " ", t.len, " ", c, " ", execProcess("echo child").strip
	END
	same sh -c 'nim c --hints:off --nimcache:cache -r work.nim'
}

real_make()
{
	local i
	has make gcc || return
	for i in $(seq 40); do
		cat >"f$i.c" <<-END
			#include <stdio.h>
			#include <stdlib.h>
			#include <string.h>
			int f$i(int n)
			{
				char text[99];
				snprintf(text, 99, "%d", n * $i);
				return atoi(text) % 97 + strlen(text);
			}
		END
	done
	{
		seq 40 | sed 's/.*/int f&(int);/'
		echo 'extern int printf(const char *, ...); int main(void) { int s = 0;'
		seq 40 | sed 's/.*/s += f&(s);/'
		echo 'printf("%d\n", s); return s % 50; }'
	} >main.c
	cat >Makefile <<-'END'
		work: $(patsubst %.c,%.o,$(wildcard *.c)); @gcc -o $@ $(sort $^)
		%.o: %.c; @gcc -O1 -c -o $@ $<
	END
	same sh -c 'make -j8 && ./work; echo $?; md5sum work'
}

real_cmake()
{
	has cmake || return
	threads_c
	cat >CMakeLists.txt <<-'END'
		cmake_minimum_required(VERSION 3.10)
		project(p C)
		find_package(Threads REQUIRED)
		add_executable(work work.c)
		target_link_libraries(work Threads::Threads)
		enable_testing()
		add_test(t work)
	END
	normal='s/[0-9.]* sec/T sec/'
	same sh -c 'cmake -S . -B b && cmake --build b -j4 && b/work; echo $?; cd b && ctest'
	normal=
}

real_meson()
{
	has meson ninja || return
	threads_c
	cat >meson.build <<-'END'
		project('p', 'c')
		executable('work', 'work.c', dependencies: dependency('threads'))
	END
	same sh -c 'meson setup b && ninja --quiet -C b && b/work; echo $?'
}

real_bison()
{
	has bison flex gcc || return
	cat >l.l <<-'END'
		%{
		#include <stdlib.h>
		#include "g.h"
		%}
		%option noyywrap
		%%
		[0-9]+ { yylval = atoi(yytext); return N; }
		[-+*()\n] return *yytext;
		. ;
	END
	cat >g.y <<-'END'
		%{
		#include <stdio.h>
		int yylex(void);
		void yyerror(const char *why) { puts(why); }
		%}
		%token N
		%left '+' '-'
		%left '*'
		%%
		s: | s e '\n' { printf("%d\n", $2); };
		e: N | e '+' e { $$ = $1 + $3; } | e '-' e { $$ = $1 - $3; } |
		e '*' e { $$ = $1 * $3; }
			| '(' e ')' { $$ = $2; };
		%%
		int main(void) { return yyparse(); }
	END
	same sh -c 'bison --header=g.h -o g.c g.y && flex -o l.c l.l && gcc -w g.c l.c -o work &&
		echo "1+2*(3-4)*5" | ./work'
}

real_nasm()
{
	has nasm ld || return
	cat >work.asm <<-'END'
		section .text
		global _start
		_start: mov eax, 1
		mov edi, 1
		lea rsi, [rel m]
		mov edx, 3
		syscall
		mov eax, 60
		mov edi, 7
		syscall
		section .data
		m: db "hi", 10
	END
	same sh -c 'nasm -f elf64 work.asm && ld -o work work.o && ./work; echo $?'
}

real_gdb()
{
	has gdb gcc || return
	threads_c
	gcc -g -O0 -pthread work.c -o work
	# it says when it comes to it that a child was left alone
	normal='/^\[Detaching after fork/d; s/0x[0-9a-f]*/X/g; s/Thread X \(LWP [0-9]+\)/Thread/;
	s/Thread [0-9]+ "work"/Thread N/; s/child process [0-9]+/child/; s/process [0-9]*/process/;
	/^warning: Error disabling/d'
	same gdb -nx -q -batch -ex 'set startup-with-shell off' \
		-ex 'handle SIGSEGV nostop noprint' -ex 'set print thread-events off' \
		-ex 'break main' -ex run -ex 'next 2' \
			-ex 'print count' -ex 'break depth if n == 3' -ex continue -ex 'bt 2' \
				-ex 'delete' -ex continue ./work
	normal=
	same gdb -nx -q -batch -ex 'disassemble main' \
		-ex 'info line depth' -ex 'python print(sum(range(10)))' ./work
}

real_strace()
{
	has strace || return
	threads_c
	gcc -g -O0 -pthread work.c -o work
	same sh -c 'strace -f -o s.log ./work a; echo $?; grep -c "exited with" s.log'
}

real_valgrind()
{
	has valgrind gcc || return
	cat >leak.c <<-'END'
		#include <stdlib.h>
		int main(void) { int *a = malloc(16), b = a[4]; free(a);
		return b + a[0] > 0 ? 0 : 0; }
	END
	gcc -g leak.c -o leak
	threads_c
	gcc -g -O0 -pthread work.c -o work
	normal='s/==[0-9]*==/==N==/; s/0x[0-9A-Fa-f]*/X/g'
	same valgrind --error-exitcode=9 ./leak
	same valgrind -q --tool=none ./work
	normal=
}

real_qemu()
{
	has qemu-x86_64 gcc || return
	threads_c
	gcc -O1 -pthread work.c -o work
	same qemu-x86_64 ./work a
	command -v aarch64-linux-gnu-gcc >/dev/null || return 0
	aarch64-linux-gnu-gcc -O1 -static -pthread work.c -o arm
	same qemu-aarch64 ./arm a
}

real_wine()
{
	local wine
	wine=$(command -v wine64 wine /usr/lib/wine/wine64 | head -n 1)
	[ -n "$wine" ] || { missing wine; return; }
	export WINEPREFIX=$folder/wine WINEDEBUG=-all \
		WINEDLLOVERRIDES='mscoree,mshtml,winemenubuilder.exe='
	[ -d "$WINEPREFIX" ] || timeout 200 "$wine" wineboot -i >/dev/null 2>&1
	timeout 60 /usr/lib/wine/wineserver64 -w
	export WINE=$wine
	same sh -c 'c="ver & echo hi & set /a 6*7 & dir /b c:\\windows\\system32\\cmd.exe & exit 3"
		"$WINE" cmd /c "$c" 2>/dev/null; echo $?
		/usr/lib/wine/wineserver64 -k -w'
}

real_git()
{
	has git || return
	(
		git init -q r && cd r || exit
		for i in $(seq 30); do
			seq "$i" 300 >"f$((i % 7))"
			git add -A
			GIT_AUTHOR_DATE="2020-01-01T00:00:$i" \
				GIT_COMMITTER_DATE="2020-01-01T00:00:$i" \
				git -c user.name=a -c user.email=a commit -qm "$i"
		done
	) 2>/dev/null
	# how large a pack becomes depends on which of git's threads is quicker
	same sh -c 'cd r && git gc -q && git fsck 2>&1 && git log --oneline | md5sum &&
	git count-objects -v | grep -v size &&
	git -c pack.threads=4 repack -adfq && git clone -q . ../c 2>&1 &&
	git blame f3 | md5sum && git diff HEAD~9 | git apply --stat | tail -n 1'
}

real_tar()
{
	has tar xz gzip bzip2 || return
	mkdir d
	seq -f 'd/%03g' 200 | xargs touch
	for i in $(seq -w 0 9 200); do seq "$i" 2000 >"d/0$i"; done
	same sh -c 'mkdir e; tar cf - d | xz -1 -T2 | xz -d | bzip2 | bunzip2 | gzip | zcat |
	tee o.tar | tar xf - -C e && diff -r d e/d && tar tf o.tar | sort | md5sum;
	tar czf a.tgz d && tar xzOf a.tgz d | wc -c'
}

real_zip()
{
	has zstd || return
	seq 200000 >numbers
	same sh -c 'zstd -q -T4 -9 numbers -o n.zst && zstd -dc n.zst | md5sum;
	command -v 7z >/dev/null && 7z a -mmt=2 n.7z numbers >/dev/null && 7z x -so n.7z | md5sum;
	rm n.7z; xz -T2 -k numbers; xz -dc numbers.xz | cmp - numbers; lz4 -c numbers 2>/dev/null |
	lz4 -dc | md5sum'
}

real_coreutils()
{
	same sh -c 'seq 100000 | sort --parallel=4 -R --random-source=/bin/sh | sort -n | md5sum;
	find /usr/share/doc -maxdepth 1 | sort | sed -n 1,50p | xargs -P 4 -n 5 ls -d | sort |
	md5sum; factor 1000000016000000063; sha512sum /bin/sh; ls -l / | wc -l;
	timeout 0.1 sleep 9; echo $?; (sleep 0.2; echo late) & wait; split -n 3 /bin/sh; cat xa? |
	cmp - /bin/sh; dd if=/bin/sh bs=7 count=500 2>/dev/null | od -An -tx1 | md5sum;
	env -i A=1 env; nice -n 1 true; stdbuf -oL echo a; tee /dev/full </dev/null; mktemp -u |
	wc -c'
}

real_shells()
{
	local shell
	cat >work.sh <<-'END'
		f() { [ $1 -lt 2 ] && { echo $1; return; }; a=$(f $(($1 - 1))); b=$(f $(($1 - 2)));
		echo $((a + b)); }
		f 6
		trap 'echo trapped' USR1; kill -USR1 $$; 
		(exit 3); echo $?
		echo a b c | while read x y; do echo "$y"; done
		sleep 5 & kill $!; wait $! 2>/dev/null; echo $?
		cat <<EOF | tr a-z A-Z
		here
		EOF
		for i in 1 2 3 4 5 6 7 8; do (echo $i | cat) & wait; done
		exit 9
	END
	for shell in dash bash zsh mksh busybox\ sh; do
		command -v "${shell%% *}" >/dev/null || continue
		# shellcheck disable=SC2086 # words
		same $shell work.sh
	done
	if command -v fish >/dev/null; then
		same fish --no-config -c 'for i in (seq 5); echo (math $i x 7) |
		string replace 4 four; end; sh -c "exit 3"; echo $status'
	fi
}

real_ssl()
{
	has openssl || return
	seq 50000 >numbers
	same sh -c 'openssl enc -aes-256-ctr -K 00 -iv 00 -in numbers | openssl dgst -sha3-256;
	for a in sha512 blake2b512 md5; do openssl dgst -$a numbers; done;
	openssl genrsa 1024 2>/dev/null | openssl rsa -check -noout 2>&1 | sed -n 1p;
	openssl ecparam -genkey -name prime256v1 -noout | openssl ec -pubout 2>/dev/null | wc -l;
	openssl speed -seconds 1 aes-128-gcm >/dev/null 2>&1; echo $?'
}

real_vim()
{
	has vim || return
	seq 300 >text
	same vim -u NONE -es -N text -c '%s/3/three/g' -c 'g/1/m0' -c 'let x = map(range(500), {i,
	v -> v * v})' -c 'call append(0,
	string(x[7:9]))' -c 'w! out' -c 'r !echo child' -c '%p' -c 'q!'
}

real_tmux()
{
	has tmux || return
	export TERM=xterm
	same sh -c 'tmux -f /dev/null -L real -S ./s new-session -d -x 80 -y 24 "sh -c \"echo in;
	sleep 0.1; seq 5; sleep 300\""; for i in $(seq 200); do tmux -S ./s capture-pane -p |
	grep -q ^5 && break; sleep 0.1; done; tmux -S ./s capture-pane -p | head -n 7;
	tmux -S ./s kill-server; echo $?'
}

real_rsync()
{
	has rsync || return
	mkdir d
	for i in $(seq 30); do seq "$i" 3000 >"d/$i"; done
	same sh -c 'rsync -a d/ e/ && echo x >>d/3 && rsync -ac --no-whole-file --stats d/ e/ |
	grep "files transferred" && diff -r d e'
}

real_rg()
{
	has rg || return
	mkdir d
	for i in $(seq 60); do seq "$i" 2000 >"d/$i"; done
	same sh -c 'rg --sort path -c "1[0-9]3\b" d | md5sum; rg -j4 -c 77 d | sort | md5sum;
	(fdfind -j4 . d || true) | sort | md5sum'
}

real_apt()
{
	has apt-get apt-cache || return
	mkdir cache
	same sh -c 'apt-cache -q -o Dir::Cache="$PWD/cache" gencaches >/dev/null;
	apt-cache -o Dir::Cache="$PWD/cache" stats | sed -n 1,3p;
	apt-cache -o Dir::Cache="$PWD/cache" depends libc6;
	apt-get -s -qq -o Dir::Cache="$PWD/cache" -o Debug::NoLocking=1 install sl cowsay 2>&1;
	apt-config dump | wc -l'
}

real_dpkg()
{
	has dpkg dpkg-deb || return
	mkdir -p pkg/DEBIAN pkg/usr/share/w root/var/lib/dpkg/{info,updates,triggers}
	touch root/var/lib/dpkg/{status,available}
	cat >pkg/DEBIAN/control <<-'END'
		Package: w
		Version: 1
		Architecture: all
		Maintainer: a <a@a>
		Description: w
	END
	printf '#!/bin/sh\necho configured "$1"\n' >pkg/DEBIAN/postinst
	chmod 755 pkg/DEBIAN/postinst
	seq 3000 >pkg/usr/share/w/numbers
	# shellcheck disable=SC2015
	same sh -c 'dpkg-deb -Zxz --build pkg w.deb &&
	dpkg --root="$PWD/root" --force-script-chrootless --force-not-root -i w.deb &&
	dpkg --root="$PWD/root" -l w | tail -n 1; dpkg --root="$PWD/root" -V;
	dpkg --root="$PWD/root" --force-script-chrootless --force-not-root -P w;
	find root -type f | sort; dpkg -l | md5sum'
}

real_systemd()
{
	has systemd-analyze || return
	printf '[Unit]\nDescription=w\n[Service]\nExecStart=/bin/true\n' >w.service
	same sh -c 'systemd-analyze calendar --base-time="2020-01-01 00:00:00 UTC" --iterations=3 \
		"Mon *-*-* 00:00:00" | grep -v "From now"; systemd-analyze timespan "3h 5min";
		systemd-analyze syscall-filter @basic-io;
		systemd-analyze --man=no verify ./w.service 2>&1; systemd-analyze unit-paths;
		systemd-escape -p /a/b-c; systemd-id128 --help | wc -l'
}

real_chroot()
{
	has busybox chroot || return
	[ "$(id -u)" -eq 0 ] || { missing "root"; return; }
	! ldd "$(command -v busybox)" >/dev/null 2>&1 || { missing "a static busybox"; return; }
	mkdir -p root/bin
	cp "$(command -v busybox)" root/bin/busybox
	ln -s busybox root/bin/sh
	same chroot root /bin/sh -c 'echo in; busybox ls /; (exit 3); echo $?; busybox seq 3 |
	busybox sort -r; exit 5'
}

real_unshare()
{
	has unshare || return
	[ "$(id -u)" -eq 0 ] || { missing "root"; return; }
	same unshare -m -p -f -n -i -u sh -c 'echo $$; mount -t tmpfs none /mnt && ls /mnt | wc -l;
	sh -c "echo child; exit 3"; echo $?; cat /proc/net/dev | wc -l'
	same setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'id -u; sh -c "exit 3";
	echo $?'
}

real_z3()
{
	has z3 || return
	cat >work.smt2 <<-'END'
		(declare-const x Int)(declare-const y Int)(assert (= (+ (* x x)
		(* y y)) 1105))(assert (> x y 0))(check-sat)(push)(assert (> x 1000))
		(check-sat)(pop)
		(declare-const b (_ BitVec 32))(assert (= (bvmul b b) #x00000519))(check-sat)
	END
	same z3 work.smt2
}

real_verilog()
{
	has iverilog vvp || return
	cat >t.v <<-'END'
		module t; integer i, s = 0; reg [31:0] r = 1; initial begin for (i = 0; i < 2000;
		i = i + 1) begin r = r * 31 + i; s = s ^ r; #1; end $display("%d", s); $finish;
		end endmodule
	END
	same sh -c 'iverilog -o t t.v && vvp -n t'
}

real_yosys()
{
	has yosys || return
	cat >t.v <<-'END'
		module t(input clk, input [7:0] a, b, output reg [15:0] y);
		always @(posedge clk) y <= a * b + y; endmodule
	END
	same sh -c 'yosys -q -p "read_verilog t.v; synth; write_verilog o.v" && tail -n +2 o.v | md5sum'
}

real_coq()
{
	has coqc || return
	cat >t.v <<-'END'
		Theorem t : forall n m : nat, n + m = m + n.
		Proof. induction n; simpl; intros; [ now rewrite <- plus_n_O | rewrite IHn;
		now rewrite plus_n_Sm ]. Qed.
		Print t.
		Eval compute in (12 * 13).
	END
	same coqc t.v
}

real_loaders()
{
	has gcc || return
	threads_c
	gcc -O1 -pthread -static work.c -o static
	gcc -O1 -pthread work.c -o dynamic
	same ./static a
	same /lib64/ld-linux-x86-64.so.2 ./dynamic a
	same sh -c 'ldd ./dynamic | wc -l; LD_BIND_NOW=1 LD_PRELOAD=libm.so.6 ./dynamic; echo $?;
	GLIBC_TUNABLES=glibc.pthread.rseq=0 ./dynamic; echo $?; setarch -R ./dynamic;
	prlimit --stack=300000 ./dynamic'
}
