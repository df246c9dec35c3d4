/* Lab stand-in for the programs of the image: no vLLM, no Python, no GPU.
 *
 * As `vllm serve MODEL ...` it prints the lines with which the engine passes its stages, holds a GPU device file open,
 * and answers /health once it is ready. MODEL/lab-fails names the stage at which it fails instead: start, weights,
 * engine, or port (ready by its log, and nobody listens). A rank that is told --headless opens no port.
 * As `python3` it answers what a self-build asks: it installs (a copy of itself), and names versions.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char fails[32];

static void end(int signal) { (void)signal; _exit(0); }

static void say(const char *who, const char *text) {
  char stamp[32];
  time_t now = time(NULL);
  strftime(stamp, sizeof stamp, "%m-%d %H:%M:%S", gmtime(&now));
  printf("(%s pid=1) INFO %s [lab.py:1] %s\n", who, stamp, text);
  fflush(stdout);
  usleep(150000);
}

static void fail_at(const char *stage, const char *lines) {
  if (strcmp(fails, stage)) return;
  fputs(lines, stderr);
  _exit(1);
}

static void serve_http(int port) {
  int yes = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = INADDR_ANY};
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 8)) {
    fputs("OSError: [Errno 98] Address already in use\n", stderr);
    _exit(1);
  }
  for (;;) {
    char asked[2048];
    const char *answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    int peer = accept(listener, NULL, NULL);
    if (peer < 0) continue;
    if (read(peer, asked, sizeof asked) > 0 && write(peer, answer, strlen(answer)) < 0) {}
    close(peer);
  }
}

static int serve(int count, char **words) {
  int port = 8000, headless = 0, file;
  char path[512];
  for (int i = 3; i < count; i++) {
    if (!strcmp(words[i], "--port") && i + 1 < count) port = atoi(words[i + 1]);
    if (!strcmp(words[i], "--headless")) headless = 1;
  }
  snprintf(path, sizeof path, "%s/lab-fails", words[2]);
  if ((file = open(path, O_RDONLY)) >= 0) {
    ssize_t size = read(file, fails, sizeof fails - 1);
    fails[size > 0 ? strcspn(fails, "\n") : 0] = 0;
    close(file);
  }
  signal(SIGTERM, end);
  if (open("/dev/nvidia9", O_RDWR | O_CREAT, 0600) < 0) {}  /* a plain file of the container: held like a GPU */
  say("APIServer", "vLLM API server version 0.28.0");
  fail_at("start", "vllm serve: error: unrecognized arguments: --lab\n");
  say("EngineCore", "world_size=8 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:29501 backend=nccl");
  say("EngineCore", "vLLM is using nccl==2.28.9");
  say("Worker_TP0", "Starting to load model ...");
  fail_at("weights",
          "(Worker_TP0 pid=1) ERROR 11-30 00:00:00 [multiproc_executor.py:1] Traceback (most recent call last):\n"
          "(Worker_TP0 pid=1) ERROR 11-30 00:00:00 [multiproc_executor.py:1]   in load_model\n"
          "(Worker_TP0 pid=1) ERROR 11-30 00:00:00 [multiproc_executor.py:1] torch.OutOfMemoryError: CUDA out of memory. "
          "Tried to allocate 3.50 GiB. GPU 0 has a total capacity of 275.00 GiB of which 1.00 GiB is free.\n");
  say("Worker_TP0", "Loading weights took 0.20 seconds");
  say("Worker_TP0", "Model loading took 190.5 GiB memory and 0.300000 seconds");
  say("Worker_TP0", "Available KV cache memory: 40.1 GiB");
  fail_at("engine", "(EngineCore pid=1) ERROR 11-30 00:00:00 [core.py:1] EngineCore failed to start.\n"
                    "ValueError: To serve at least one request with the models's max seq len (1048576), (50.0 GiB KV cache is "
                    "needed, which is larger than the available KV cache memory (40.1 GiB).\n");
  if (headless) for (;;) pause();
  say("EngineCore", "GPU KV cache size: 1,234,560 tokens");
  say("EngineCore", "init engine (profile, create kv cache, warmup model) took 0.40 seconds");
  say("APIServer", "Application startup complete.");
  if (!strcmp(fails, "port")) for (;;) pause();
  serve_http(port);
  return 0;
}

static int copy(const char *from, const char *to) {
  char block[65536];
  ssize_t size;
  int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
  while (in >= 0 && out >= 0 && (size = read(in, block, sizeof block)) > 0)
    if (write(out, block, size) != size) return 1;
  return in < 0 || out < 0;
}

static int python(int count, char **words) {
  for (int i = 1; i < count; i++) {
    if (!strcmp(words[i], "install") && !strcmp(words[count - 1], ".")) return copy("/proc/self/exe", "/usr/bin/vllm");
    if (!strcmp(words[i], "-c")) {
      puts("{\"vllm\": \"0.0.0+lab\", \"torch\": \"2.13.0+lab\", \"cuda\": \"12.9\", \"nccl\": \"2.28.9\", \"flashinfer\": \"none\"}");
      return 0;
    }
  }
  return access("pyproject.toml", R_OK) ? 1 : 0;
}

int main(int count, char **words) {
  const char *name = strrchr(words[0], '/') ? strrchr(words[0], '/') + 1 : words[0];
  if (!strcmp(name, "python3")) return python(count, words);
  if (count > 2 && !strcmp(words[1], "serve")) return serve(count, words);
  puts("rackproof lab image: nothing runs here");
  return 0;
}
