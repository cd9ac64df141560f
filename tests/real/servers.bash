# SPDX-License-Identifier: MIT
# Real programs: servers on a socket of their own, with a client, ended at the end; and programs
# of desktops, without a display. See engine_suites.sh.
# shellcheck shell=bash disable=SC2034,SC2016,SC2154 # the sourcing script's; other shells' dollars

# Shell code in front of a server's script. `up COMMAND`: wait until it succeeds, a minute at most.
readonly up='up() { n=0; until "$@" >/dev/null 2>&1; do n=$((n + 1)); [ $n -lt 600 ] ||
{ echo "not up: $*"; return 1; }; sleep 0.1; done; }
'

real_redis()
{
	has redis-server redis-cli || return
	same sh -c "$up"'redis-server --port 0 --unixsocket $PWD/s --save "" --io-threads 2 >log &
	c="redis-cli -s $PWD/s"
		up $c ping; for i in 1 2 3; do $c set k$i v$i; done;
		$c eval "local s = 0 for i = 1, 100000 do s = s + i % 7 end return s" 0
		$c lpush l a b c; $c lrange l 0 -1; $c --raw dbsize;
		redis-benchmark -s $PWD/s -q -n 2000 -c 10 -t set,get >/dev/null; echo $?
		$c debug set-active-expire 1; $c bgsave; up sh -c "$c info persistence |
		grep -q bgsave_in_progress:0"; $c info persistence | grep last_bgsave_status
		$c shutdown nosave; wait; echo $?'
}

real_mariadb()
{
	local server
	server=$(command -v mariadbd mysqld /usr/sbin/mariadbd | head -n 1)
	[ -n "$server" ] && has mariadb || { missing mariadbd; return; }
	mkdir data
	export SERVER="$server --no-defaults --user=root --datadir=./data \
		--innodb-buffer-pool-size=16M --innodb-log-file-size=8M \
			--socket=./s --skip-networking --pid-file=./pid \
				--lc-messages-dir=/usr/share/mysql"
	{
		printf 'create database if not exists mysql;\nuse mysql;\n'
		cat /usr/share/mysql/mysql_system_tables.sql \
			/usr/share/mysql/mysql_system_tables_data.sql
	} >start.sql 2>/dev/null
	same sh -c "$up"'$SERVER --bootstrap --skip-grant-tables <start.sql 2>/dev/null; echo $?
		$SERVER --skip-grant-tables >log 2>&1 & c="mariadb --no-defaults --socket=data/s -N";
		up $c -e "select 1"
		$c -e "create database w; use w;
		create table t(a int primary key, b varchar(40), key(b)) engine=innodb;
			insert into t select seq, md5(seq) from seq_1_to_3000;
			select count(*), min(b), max(b) from t where b < 8;
			begin; delete from t where a % 3 = 0; rollback;
			select count(*), sum(a) from t; check table t;"
		$c -e "shutdown"; wait; echo $?'
}

real_memcached()
{
	has memcached python3 || return
	cat >client.py <<-'END'
		import socket
		s = socket.socket(socket.AF_UNIX); s.connect("s"); f = s.makefile("rwb")
		for i in range(300): f.write(b"set k%d 0 0 5\r\nhello\r\n" % i); f.flush();
		assert f.readline() == b"STORED\r\n"
		f.write(b"get k7 k9\r\n"); f.flush(); print([f.readline() for _ in range(5)])
	END
	same sh -c "$up"'memcached -u root -s $PWD/s -t 4 & up test -S s; python3 -S client.py;
	kill $!; wait; echo $?'
}

real_nginx()
{
	has nginx curl || return
	cat >nginx.conf <<-END
		user root; worker_processes 2; pid $folder/run/pid; error_log $folder/run/log;
		events { worker_connections 64; }
		http { access_log off; client_body_temp_path t; proxy_temp_path t;
		fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t;
			gzip on; gzip_min_length 1; gzip_types *;
			server { listen unix:$folder/run/s; root $folder/run;
			location /p/ { proxy_pass http://unix:$folder/run/s:/; } } }
	END
	seq 20000 >numbers
	same sh -c "$up"'nginx -p $PWD -c $PWD/nginx.conf -e $PWD/log -t 2>&1;
	nginx -p $PWD -c $PWD/nginx.conf -e $PWD/log -g "daemon off;" & c="curl -s --unix-socket s"
		up $c http://h/numbers; for i in 1 2 3 4 5; do $c http://h/numbers | md5sum;
		$c --compressed http://h/p/numbers | md5sum; done;
		$c -o /dev/null -w "%{http_code}\n" http://h/none
		kill -HUP $!; sleep 0.2; $c http://h/numbers | wc -l; kill -QUIT $!; wait; echo $?'
}

real_php_fpm()
{
	local server
	server=$(command -v php-fpm8.2 /usr/sbin/php-fpm8.2 php-fpm | head -n 1)
	[ -n "$server" ] && has cgi-fcgi || { missing php-fpm; return; }
	cat >fpm.conf <<-END
		[global]
		error_log = $folder/run/log
		daemonize = no
		[w]
		user = root
		group = root
		listen = $folder/run/s
		pm = static
		pm.max_children = 2
	END
	cat >w.php <<-'END'
		<?php $s = 0; for ($i = 0; $i < 100000; $i++) $s = ($s * 31 + $i) % 1000003;
		echo "$s ", $_GET["a"], "\n";
	END
	export FPM=$server
	normal='s/^\[.*\] NOTICE/NOTICE/'
	same sh -c "$up"'$FPM -n -R -t -y fpm.conf;
	$FPM -n -R -y fpm.conf -d zend_extension=opcache & up test -S s
		for i in 1 2 3 4; do
			REQUEST_METHOD=GET QUERY_STRING=a=$i SCRIPT_FILENAME=$PWD/w.php \
			cgi-fcgi -bind -connect s | tail -n 1; done; kill -QUIT $!; wait; echo $?'
}

real_apache()
{
	local server modules=/usr/lib/apache2/modules
	server=$(command -v apache2 /usr/sbin/apache2 | head -n 1)
	[ -n "$server" ] && has curl || { missing apache2; return; }
	cat >a.conf <<-END
		ServerRoot $folder/run
		ServerName h
		PidFile pid
		ErrorLog log
		Listen 127.0.0.1:8719
		DocumentRoot $folder/run
		Mutex file:$folder/run
		DefaultRuntimeDir $folder/run
		LoadModule mpm_event_module $modules/mod_mpm_event.so
		LoadModule authz_core_module $modules/mod_authz_core.so
		ThreadsPerChild 5
		ServerLimit 2
		MaxRequestWorkers 10
		StartServers 1
	END
	seq 20000 >numbers
	export APACHE=$server
	same sh -c "$up"'$APACHE -f $PWD/a.conf -t 2>&1;
	$APACHE -f $PWD/a.conf -D FOREGROUND 2>/dev/null & up curl -sf http://127.0.0.1:8719/numbers
		seq 8 | xargs -P 4 -n 1 sh -c "curl -s http://127.0.0.1:8719/numbers | md5sum";
		curl -s -o /dev/null -w "%{http_code}\n" http://127.0.0.1:8719/none; kill $!; wait;
		echo $?'
}

real_config_checks()
{
	local found=
	cat >h.cfg <<-'END'
		global
		 maxconn 9
		defaults
		 timeout client 1s
		 timeout connect 1s
		 timeout server 1s
		 mode http
		frontend f
		 bind unix@./s
	END
	printf 'options { directory "/tmp"; };\n' >n.conf
	printf 'server:\n directory: "/tmp"\n chroot: ""\n username: ""\n' >u.conf
	printf 'server.document-root = "/tmp"\nserver.port = 8720\n' >l.conf
	printf 'port=0\n' >d.conf
	if command -v haproxy >/dev/null; then same haproxy -c -f h.cfg && found=1; fi
	if command -v named-checkconf >/dev/null; then same named-checkconf -p n.conf && found=1; fi
	if command -v unbound-checkconf >/dev/null; then same unbound-checkconf u.conf && found=1;
	fi
	if command -v lighttpd >/dev/null; then same lighttpd -tt -f l.conf && found=1; fi
	if command -v dnsmasq >/dev/null; then same dnsmasq --test -C d.conf && found=1; fi
	if [ -x /usr/sbin/sshd ] && [ -d /run/sshd ];
	then same sh -c 'ssh-keygen -q -N "" -t ed25519 -f k;
	/usr/sbin/sshd -t -f /dev/null -h $PWD/k; echo $?; ssh -G -F /dev/null h | sed -n 1,3p' &&
	found=1; fi
	[ -n "$found" ] || missing "any of haproxy, named, unbound, lighttpd, dnsmasq, sshd"
}

real_http()
{
	has python3 curl || return
	seq 20000 >numbers
	same sh -c "$up"'python3 -m http.server --bind 127.0.0.1 8721 >/dev/null 2>&1 &
	up curl -sf http://127.0.0.1:8721/; for i in 1 2 3;
	do curl -s http://127.0.0.1:8721/numbers | md5sum; done
		command -v wget >/dev/null && wget -q -O - http://127.0.0.1:8721/numbers | md5sum;
		curl -s file://$PWD/numbers | md5sum; kill $!; wait; echo $?'
}

page()
{
	cat >page.html <<-'END'
		<html><body><p id=p>waiting</p><canvas id=c width=50 height=50></canvas><script>
		function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }
		let caught = 0; for (let i = 0; i < 3000; i++) try { if (i % 3) null.x;
		else caught += 2 } catch (e) { caught++ }
		const map = new Map(); for (let i = 0; i < 20000; i++) map.set(i * 7919 % 997, i);
		document.getElementById("p").textContent = [fib(20), caught, map.size,
		"abc".replace(/(b)/, "[$1]")].join(" ");
		</script></body></html>
	END
}

real_chromium()
{
	has chromium || return
	page
	same sh -c 'chromium --headless --no-sandbox --disable-gpu --no-first-run \
		--user-data-dir=$PWD/profile --dump-dom "file://$PWD/page.html" 2>/dev/null;
		echo $?'
}

real_firefox()
{
	local browser
	browser=$(command -v firefox-esr firefox | head -n 1)
	[ -n "$browser" ] || { missing firefox; return; }
	page
	mkdir profile
	export BROWSER_HERE=$browser MOZ_CRASHREPORTER_DISABLE=1
	same sh -c '"$BROWSER_HERE" --headless --no-remote --profile $PWD/profile \
		--window-size=200,200 --screenshot $PWD/shot.png \
			"file://$PWD/page.html" >/dev/null 2>&1; echo $?; file shot.png |
			cut -d , -f 1,2; md5sum shot.png'
}

real_libreoffice()
{
	has soffice || return
	printf 'a,b\n1,2\n3,=A2*7\n' >t.csv
	same sh -c 'soffice --headless --norestore -env:UserInstallation=file://$PWD/profile \
		--convert-to ods t.csv >/dev/null 2>&1; echo $?;
		soffice --headless --norestore -env:UserInstallation=file://$PWD/profile \
			--convert-to csv --outdir out t.ods >/dev/null 2>&1; echo $?; cat out/t.csv'
}

real_gimp()
{
	has gimp || return
	mkdir plugs # all of its 200 plug-ins would be asked what they do
	ln -s /usr/lib/gimp/2.0/plug-ins/{script-fu,file-pnm} plugs
	echo '(plug-in-path "plugs")' >gimprc
	same sh -c 'gimp -g gimprc -n -i -d -f --no-data -b "(let* ((i (car (gimp-image-new 60 40 RGB)))
	(l (car (gimp-layer-new i 60 40 RGB-IMAGE \"l\" 100 LAYER-MODE-NORMAL))))
	(gimp-image-insert-layer i l 0 0) (gimp-context-set-foreground (list 200 30 60))
	(gimp-drawable-fill l FILL-FOREGROUND)
	(file-ppm-save RUN-NONINTERACTIVE i l \"o.ppm\" \"o.ppm\" 1))" \
		-b "(gimp-quit 0)" >/dev/null 2>&1; echo $?; md5sum <o.ppm'
}

real_blender()
{
	has blender || return
	cat >w.py <<-'END'
		import bpy
		bpy.ops.mesh.primitive_monkey_add()
		bpy.ops.object.modifier_add(type="SUBSURF")
		d = bpy.context.evaluated_depsgraph_get()
		m = bpy.context.object.evaluated_get(d).to_mesh()
		print("vertices", len(m.vertices), round(sum(v.co.x ** 2 for v in m.vertices), 3))
		s = bpy.context.scene
		s.render.engine = "CYCLES"
		s.cycles.samples = 1
		s.render.resolution_x = s.render.resolution_y = 16
		s.render.filepath = "o.png"
	END
	same sh -c 'blender -b --factory-startup -noaudio --python w.py 2>/dev/null |
	grep vertices; echo $?'
}

real_ffmpeg()
{
	has ffmpeg || return
	same ffmpeg -nostdin -v error -threads 4 -f lavfi \
		-i testsrc2=size=320x240:rate=10:duration=2 \
		-f lavfi \
		-i sine=duration=2 -c:v mpeg4 -c:a flac \
			-flags +bitexact -fflags +bitexact -f md5 -
	same ffmpeg -nostdin -v error -threads 2 -f lavfi \
		-i mandelbrot=size=160x120:rate=5 -frames:v 5 \
		-vf scale=99:77,hue=s=0 -f framemd5 -
}

real_images()
{
	has convert || return
	same sh -c 'convert -size 200x200 plasma:red-blue -seed 7 -blur 0x3 -resize 50% \
		-rotate 30 x.ppm; convert -size 90x90 gradient:red-blue -swirl 90 \
			-blur 0x2 -resize 140% -depth 8 ppm:- | md5sum;
			convert rose: -charcoal 2 -depth 8 ppm:- | md5sum; identify -format %wx%h rose:'
}

real_ghostscript()
{
	has gs || return
	cat >w.ps <<-'END'
		%!PS
		/Helvetica findfont 24 scalefont setfont 72 400 moveto (text) show
		0 1 50 { dup 7 mul exch 5 mul moveto 9 9 rlineto stroke } for { 1 0 div }
		stopped { (caught) print } if showpage
	END
	same sh -c 'gs -q -dNOPAUSE -dBATCH -dSAFER -sDEVICE=ppmraw -r36 -sOutputFile=o.ppm w.ps;
	echo $?; md5sum <o.ppm'
}

real_plots()
{
	local found=
	if command -v gnuplot >/dev/null; then same gnuplot -e 'set terminal dumb 70 20;
	f(x) = sin(x) / x; plot f(x), besj0(x); fit a * x + 1 "-" via a' -e 'quit' && found=1; fi
	if command -v dot >/dev/null; then same sh -c 'seq 30 |
	awk "BEGIN { print \"digraph g {\" } { print \"n\" \$1 \"-> n\" (\$1 * 7 % 31) }
	END { print \"}\" }" | dot -Tplain' && found=1; fi
	if command -v povray >/dev/null; then
		echo 'camera { location <0,1,-3> look_at 0 } light_source { <2,4,-3> rgb 1 }
		sphere { 0, 1 pigment { rgb x } finish { phong 1 } }
		plane { y, -1 pigment { checker rgb 1 rgb 0 } }' >w.pov
		same sh -c 'povray +Iw.pov +Oo.ppm +FP +W60 +H40 +WT4 -D 2>/dev/null; echo $?;
		md5sum <o.ppm' && found=1
	fi
	if command -v openscad >/dev/null; then
		same sh -c 'echo "difference() { cube(10, center = true); sphere(6, \$fn = 20);
		}" >w.scad; openscad -q -o o.stl w.scad; echo $?; md5sum <o.stl' && found=1
	fi
	[ -n "$found" ] || missing "any of gnuplot, dot, povray, openscad"
}

real_inkscape()
{
	has inkscape || return
	echo '<svg xmlns="http://www.w3.org/2000/svg" width="60" height="40">
		<circle cx="20" cy="20" r="15" fill="red"/>
	<path d="M5 5 L50 30" stroke="blue"/></svg>' >w.svg
	same sh -c 'inkscape --actions="select-all;object-to-path" --export-type=png \
		--export-filename=o.png w.svg >/dev/null 2>&1; echo $?; md5sum <o.png'
}

real_documents()
{
	local found=
	cat >w.md <<-'END'
		# Title

		Text *with* `code` and a [link](x).

		- a
		- b

		| a | b |
		|---|---|
		| 1 | 2 |
	END
	if command -v pandoc >/dev/null; then same sh -c 'pandoc w.md -t html5; pandoc w.md -t man;
	pandoc w.md -o w.docx && pandoc w.docx -t markdown' && found=1; fi
	if command -v pdflatex >/dev/null; then
		cat >w.tex <<-'END'
			\documentclass{article}\begin{document}
			Text $\sum_{i=1}^n x_i^2$\end{document}
		END
		same sh -c 'SOURCE_DATE_EPOCH=1 FORCE_SOURCE_DATE=1 \
			pdflatex -interaction=batchmode w.tex >/dev/null; echo $?;
			md5sum <w.pdf' && found=1
	fi
	[ -n "$found" ] || missing "pandoc, pdflatex"
}

real_sound()
{
	has sox || return
	same sh -c 'sox -n -r 8000 -b 16 o.wav synth 1 sine 440 reverb;
	sox o.wav -t raw - rate 11025 | wc -c; sox o.wav -n stat 2>&1 | sed -n 1,3p;
	flac -s --no-padding o.wav -o o.flac 2>/dev/null && flac -s -dc o.flac | cmp - o.wav'
}

real_xvfb()
{
	has Xvfb xterm || return
	same sh -c "$up"'Xvfb :77 -screen 0 300x200x8 -nolisten tcp >/dev/null 2>&1 & DISPLAY=:77;
	export DISPLAY; up test -S /tmp/.X11-unix/X77; xterm -e sh -c "echo in xterm >o; exit 3";
	echo $?; cat o; kill $!; wait; echo $?'
}
