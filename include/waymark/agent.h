/* SPDX-License-Identifier: MIT */
/*
 * The agent inside a program that links it itself (-lwaymark-agent): for static programs, which no
 * tool can load an agent into, and for programs that want to be ready for tools. Programs that only
 * have markers need none of this.
 *
 * Threads, cancellation and fork. Any thread may call these functions. One thread at a time uses an
 * object; different objects are independent. A signal handler must not call them. No call is a
 * cancellation point: pthread_cancel(3) takes effect after it. An object belongs to the process
 * that made it. In a forked child of that process, only the function that closes it works; it
 * leaves the parent's object as it is, and the others return -ECHILD. A function with another rule
 * says so.
 */
#ifndef WAYMARK_AGENT_H
#define WAYMARK_AGENT_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Listen for tools of the same user and of root. In a setuid, setgid or capability program, and
 * while the process is not dumpable, listen only for root. The socket is PID.agent in
 * $XDG_RUNTIME_DIR/waymark if that is set and this user's, else in /tmp/waymark-UID (if another
 * user made that, see waymark(7)). If a process of another PID namespace that shares the folder has
 * that name, it is PID-1.agent and so on, up to 15. Starts two threads of the agent's own, with all
 * signals blocked, which stay. Harmless when it listens already. A child of fork must call it again
 * to listen too. Returns 0, -WM_E_SOCKET_DIR if the folder has another owner or others can write to
 * it, or -errno.
 */
int wm_agent_listen(void);

#ifdef __cplusplus
}
#endif
#endif
