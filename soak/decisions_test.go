package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/decision/store"
	"ephor.invalid/ephor/internal/devcluster"
)

// uid is the UID of load.Review, which each review of an asker replaces.
const uid = "705ab4f5-6393-11e8-b7cc-42010a800002"

// asker sends reviews to one replica, a tenth of them for violating Pods. Each has its own UID, so that recorded decisions can be counted.
type asker struct {
	url        string
	clients    []*http.Client
	clean, bad [2][]byte // before and after the UID
	sent       atomic.Int64
	refused    atomic.Int64
}

func newAsker(t *testing.T, url string, connections int) *asker {
	t.Helper()
	a := &asker{url: url}
	for _, x := range []struct {
		to  *[2][]byte
		bad bool
	}{{&a.clean, false}, {&a.bad, true}} {
		before, after, found := bytes.Cut(load.Review(load.Pod("shop", x.bad)), []byte(uid))
		if !found {
			t.Fatal("the review has another UID")
		}
		*x.to = [2][]byte{before, after}
	}
	for range connections {
		a.clients = append(a.clients, load.NewClient())
	}
	return a
}

// uidOf returns the UID of the n-th review.
func uidOf(n int64) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", n) }

// ask sends one review, and returns an error for a wrong answer.
func (a *asker) ask(c *http.Client, bad bool) error {
	text := a.clean
	if bad {
		text = a.bad
		a.refused.Add(1)
	}
	body := slices.Concat(text[0], []byte(uidOf(a.sent.Add(1))), text[1])
	allowed, err := load.Post(c, a.url, body)
	if err == nil && allowed == bad {
		err = fmt.Errorf("a review is answered wrongly: allowed is %t", allowed)
	}
	return err
}

// storm sends reviews over all connections for a while, and returns the duration of each, and the first error.
func (a *asker) storm(d time.Duration) (times []time.Duration, failed error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := time.Now()
	for _, c := range a.clients {
		wg.Go(func() {
			var mine []time.Duration
			var err error
			for i := 0; time.Since(begin) < d && err == nil; i++ {
				asked := time.Now()
				if err = a.ask(c, i%10 == 9); err == nil {
					mine = append(mine, time.Since(asked))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, mine...)
			if failed == nil {
				failed = err
			}
		})
	}
	wg.Wait()
	return times, failed
}

// link forwards connections to an address, and pauses before it forwards each piece that clients send.
type link struct {
	address string
	to      string
	pause   atomic.Int64 // in nanoseconds
	// gone is the number of times that the other end has vanished. Nothing is forwarded any more on the connections from before, and neither
	// end notices it.
	gone atomic.Int64
}

func newLink(t *testing.T, to string) *link { return newLinkAt(t, "127.0.0.1:0", to) }

// newLinkAt returns a link at an address. An address that is a path is that of a socket.
func newLinkAt(t *testing.T, address, to string) *link {
	t.Helper()
	l, err := net.Listen(network(address), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	x := &link{address: l.Addr().String(), to: to}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go x.serve(c)
		}
	}()
	return x
}

func network(address string) string {
	if filepath.IsAbs(address) {
		return "unix"
	}
	return "tcp"
}

func (x *link) serve(from net.Conn) {
	began := x.gone.Load()
	defer from.Close()
	to, err := net.DialTimeout(network(x.to), x.to, 5*time.Second)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(from, to)
		_ = from.Close()
	}()
	piece := make([]byte, 16<<10)
	for {
		n, err := from.Read(piece)
		if x.gone.Load() != began {
			if err != nil {
				return
			}
			continue
		}
		if n > 0 {
			time.Sleep(time.Duration(x.pause.Load()))
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// recording is an installation with two admission controllers, one of which records its decisions, and a reports controller that stores
// them.
type recording struct {
	*installation
	plain, recorder *asker
	replica         *devcluster.Replica // the replica that records
	keeper          *devcluster.Replica
	flags           []string // flags of the reports controller
	path            string   // path of the store
	began           int      // denials that were recorded before the store was started
	reader          func() (decision.Reader, func() error, error)
	repeats         bool // the store may store a batch twice that is sent again
}

// counts returns the number of recorded denials and of lost records, according to the metrics.
func (r *recording) counts() (recorded, lost int) {
	r.Helper()
	for line := range strings.Lines(suite.Metrics(r.T, r.replica.MetricsAddr)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), "{")
		n, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		switch {
		case err != nil:
		case name == "ephor_decisions_recorded_total" && strings.Contains(rest, `verdict="refused"`):
			recorded += int(n)
		case name == "ephor_decisions_dropped_total":
			lost += int(n)
		}
	}
	return recorded, lost
}

// keep starts the reports controller with the store, which the previous one must have released.
func (r *recording) keep() error {
	k, err := r.Ephor.Start(r.Context(), devcluster.Reports, r.flags...)
	if err == nil {
		r.keeper = k
	}
	return err
}

// phase sends reviews to both admission controllers alternately while a fault lasts, and compares the recorded decisions with the reviews.
// It returns the number of lost decisions.
func (r *recording) phase(name string, begin, meanwhile, end func()) (lost int) {
	t := r.T
	t.Helper()
	const pairs = 6
	slice := lasting(5 * time.Second)
	settled := func() (recorded, lost, asked int) {
		suite.Until(t, name+": every refusal is recorded or counted as lost", func() error {
			recorded, lost = r.counts()
			if asked = int(r.recorder.refused.Load()); recorded+lost != asked {
				return fmt.Errorf("%d are recorded and %d lost, of %d", recorded, lost, asked)
			}
			return nil
		})
		return recorded, lost, asked
	}
	recordedBefore, lostBefore, askedBefore := settled()
	if begin != nil {
		begin()
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	if meanwhile != nil {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					meanwhile()
				}
			}
		})
	}
	var slower []float64
	var longest time.Duration
	for range pairs {
		var p99 [2]time.Duration
		for i, a := range []*asker{r.plain, r.recorder} {
			times, err := a.storm(slice)
			if err != nil || len(times) == 0 {
				t.Fatalf("%s: %d reviews were answered: %v", name, len(times), err)
			}
			slices.Sort(times)
			if p99[i] = load.Percentile(times, 99); a == r.recorder {
				longest = max(longest, times[len(times)-1])
			}
		}
		slower = append(slower, float64(p99[1])/float64(p99[0]))
	}
	close(done)
	wg.Wait()
	if end != nil {
		end()
	}
	figure(t, name+": p99 beside that without decisions, median", fmt.Sprintf("%.2f x", median(slower)), "at most 2 x", median(slower) <= 2)
	figure(t, name+": the longest answer", longest.Round(time.Millisecond), "below 2 s", longest < 2*time.Second)

	// Denials are recorded again; a batch that fails may contain the first ones.
	over := time.Now()
	suite.Until(t, name+": decisions are recorded again", func() error {
		before, _ := r.counts()
		if err := r.recorder.ask(r.recorder.clients[0], true); err != nil {
			return err
		}
		time.Sleep(200 * time.Millisecond)
		if now, _ := r.counts(); now <= before {
			return fmt.Errorf("no refusal is recorded")
		}
		return nil
	})
	again := time.Since(over)
	figure(t, name+": decisions are recorded again after", again.Round(100*time.Millisecond), "within 30 s", again < 30*time.Second)
	recorded, lost, asked := settled() // otherwise the test has failed
	tell(t, name+": refusals recorded, lost, of", fmt.Sprintf("%d, %d, %d", recorded-recordedBefore, lost-lostBefore, asked-askedBefore))
	if begin == nil && meanwhile == nil {
		figure(t, name+": lost", lost-lostBefore, "0", lost == lostBefore)
	}
	r.whole(name, recorded)
	return lost - lostBefore
}

// whole reads the store: every record in it is complete, none that was reported as stored is missing, and none occurs twice or belongs to
// no review.
func (r *recording) whole(name string, recorded int) {
	t := r.T
	t.Helper()
	s, closes, err := r.reader()
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	defer func() { _ = closes() }()
	found := map[string]int{}
	broken, first := 0, ""
	for after := ""; ; {
		page, err := s.Page(t.Context(), &decision.Query{Verdicts: []decision.Verdict{decision.Refused}}, after, 1000)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		for i := range page.Records {
			x := &page.Records[i]
			if !strings.HasPrefix(x.UID, uidOf(0)[:24]) {
				continue // sent by the API server
			}
			found[x.UID]++
			n, err := strconv.ParseInt(x.UID[24:], 16, 64)
			failed := slices.ContainsFunc(x.Rules, func(y decision.Result) bool { return y.Status == "fail" && y.Message != "" })
			if err != nil || n > r.recorder.sent.Load() || !failed || x.Schema != decision.Schema || x.Kind != "Pod" || x.Namespace != "default" ||
				!strings.Contains(x.Message, "was blocked due to the following policies") || x.User == "" || x.Allowed {
				if broken++; first == "" {
					first = fmt.Sprintf("%+v", *x)
				}
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if first != "" {
		t.Errorf("%s: a record is not whole: %s", name, first)
	}
	figure(t, name+": records that are not whole", fmt.Sprintf("%d of %d", broken, len(found)), "0", broken == 0)
	want := recorded - r.began
	figure(t, name+": in the store, of those reported as stored", fmt.Sprintf("%d of %d", len(found), want), "all", len(found) >= want)
	twice := 0
	for _, n := range found {
		twice += n - 1
	}
	if r.repeats {
		tell(t, name+": records that are there twice", twice)
		return
	}
	figure(t, name+": records that are there twice", twice, "0", twice == 0)
}

// TestDecisionsThroughFaults takes the store of decisions away, slows it down, fills its disk, kills its process and damages its file while
// reviews are answered. Admission never waits for it, every decision is stored or counted as lost, and stored records are complete.
func TestDecisionsThroughFaults(t *testing.T) {
	p := &installation{t, suite.New(t, suite.Options{Values: "dashboard"})}
	p.apply(suite.RequireTeam)
	dir := t.TempDir()
	port, err := devcluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	const ca = "decisions.kyverno-tls-ca"
	channel := []string{
		fmt.Sprintf("--decisionsStorePort=%d", port), "--decisionsStoreService=localhost",
		"--decisionsStoreCASecretName=" + ca, "--decisionsStoreTLSSecretName=decisions.kyverno-tls-pair",
	}
	volume := filepath.Join(dir, "volume")
	if err := os.Mkdir(volume, 0o700); err != nil {
		t.Fatal(err)
	}
	r := &recording{installation: p, path: filepath.Join(volume, "decisions.db")}
	r.flags = append(channel, "--decisionsStore=sqlite:"+r.path)
	r.reader = func() (decision.Reader, func() error, error) {
		s, err := store.ReadSQLite(r.path)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	if err := r.keep(); err != nil {
		t.Fatal(err)
	}
	way := newLink(t, fmt.Sprintf("localhost:%d", port))
	_, wayPort, err := net.SplitHostPort(way.address)
	if err != nil {
		t.Fatal(err)
	}
	plain := p.start(1, devcluster.LongPaths...)[0]
	r.replica = p.Start(p.T, devcluster.Admission, append(slices.Clone(devcluster.LongPaths), "--decisions=https://localhost:"+wayPort,
		"--decisionsCASecretName="+ca, "--decisionsTLSSecretName=decisions-sender.kyverno-tls-pair", "--decisionsShare=0")...)
	p.podSecurity()
	r.plain, r.recorder = newAsker(t, p.reviews(plain), 8), newAsker(t, p.reviews(r.replica), 8)
	for _, a := range []*asker{r.plain, r.recorder} {
		suite.Until(t, "the policies are enforced", func() error {
			if err := a.ask(a.clients[0], true); err != nil {
				return err
			}
			return a.ask(a.clients[0], false)
		})
	}
	// Do not count requests of the API server, and requests from before the policies existed.
	suite.Until(t, "the first refusals are recorded", func() error {
		recorded, lost := r.counts()
		if recorded == 0 {
			return fmt.Errorf("none is recorded, %d are lost", lost)
		}
		return nil
	})
	time.Sleep(3 * time.Second) // until records on their way are stored
	recorded, lost := r.counts()
	r.recorder.refused.Store(int64(recorded + lost))
	r.began = recorded

	kill := func() { r.keeper.Kill() }
	restart := func() {
		if err := r.keep(); err != nil {
			t.Error(err)
		}
	}
	signal := func(s syscall.Signal) func() {
		return func() {
			if err := r.keeper.Signal(s); err != nil {
				t.Error(err)
			}
		}
	}
	r.phase("no fault", nil, nil, nil)
	r.phase("store down", kill, nil, restart)
	r.phase("store slow", func() { way.pause.Store(int64(time.Second)) }, nil, func() { way.pause.Store(0) })
	r.phase("no answer", signal(syscall.SIGSTOP), nil, signal(syscall.SIGCONT))
	r.phase("store vanishes", nil, func() {
		time.Sleep(lasting(20 * time.Second))
		way.gone.Add(1)
	}, nil)
	lost = r.phase("disk full", func() { r.limit(strconv.Itoa(32 << 10)) }, nil, func() { r.limit("unlimited") })
	figure(t, "disk full: lost, so it was full", lost, "above 0", lost > 0)
	move := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Error(err)
		}
	}
	lost = r.phase("volume away", func() {
		kill()
		move(volume, volume+".away")
		restart()
	}, nil, func() { move(volume+".away", volume) })
	figure(t, "volume away: lost, so it was away", lost, "above 0", lost > 0)
	kills := 0
	r.phase("killed while it writes", nil, func() {
		time.Sleep(lasting(4 * time.Second))
		kill()
		restart()
		kills++
	}, nil)
	tell(t, "killed while it writes: kills", kills)

	// The content of a torn file is set aside, and a new one begins.
	recorded, _ = r.counts()
	r.began = recorded
	suite.Stop(t, r.keeper)
	info, err := os.Stat(r.path)
	if err == nil {
		err = errors.Join(os.Truncate(r.path, info.Size()/2), os.WriteFile(r.path+"-wal", nil, 0o600)) // as after a process that was killed
	}
	if err != nil {
		t.Fatal(err)
	}
	restart()
	r.phase("torn file", func() {}, nil, nil)
	_, err = os.Stat(r.path + ".damaged")
	figure(t, "torn file: it is set aside, with a line of the log", err == nil && suite.Logged(r.keeper, "the store of decisions is damaged") > 0, "true",
		err == nil && suite.Logged(r.keeper, "the store of decisions is damaged") > 0)
	if err := suite.Alive(r.replica); err != nil {
		t.Error(err)
	}
	r.lines(t, channel, filepath.Join(dir, "decisions.jsonl"))
	r.collector(t, channel)
	r.postgres(t, channel)
}

// limit sets the soft limit of the sizes of files, which can be lifted, of the reports controller.
func (r *recording) limit(bytes string) {
	if out, err := exec.Command("prlimit", "--pid", strconv.Itoa(r.keeper.PID()), "--fsize="+bytes+":").CombinedOutput(); err != nil {
		r.Errorf("%v: %s", err, out)
	}
}

// turn starts the reports controller with another store.
func (r *recording) turn(t *testing.T, channel []string, address string, reader func() (decision.Reader, func() error, error)) {
	t.Helper()
	suite.Stop(t, r.keeper)
	r.flags, r.reader = append(slices.Clone(channel), "--decisionsStore="+address), reader
	if err := r.keep(); err != nil {
		t.Fatal(err)
	}
	r.began, _ = r.counts()
}

// listed is a list of records that is read as one page.
type listed []decision.Record

func (l listed) Page(_ context.Context, q *decision.Query, _ string, _ int) (page decision.Page, err error) {
	for i := range l {
		if q.Selects(&l[i]) {
			page.Records = append(page.Records, l[i])
		}
	}
	return page, nil
}

func (listed) Namespaces(context.Context) ([]string, error) { return nil, nil }

// lines continues with a file of JSON lines, whose disk becomes full in the middle of a line.
func (r *recording) lines(t *testing.T, channel []string, path string) {
	r.repeats = true
	defer func() { r.repeats = false }()
	r.turn(t, channel, path, func() (decision.Reader, func() error, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, nil, err
		}
		var all listed
		err = decision.Read(f, func(x *decision.Record) bool { all = append(all, *x); return true }, func(int, error) {})
		return all, f.Close, err
	})
	lost := r.phase("file, disk full", func() {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		r.limit(strconv.FormatInt(info.Size()+10_000, 10))
	}, nil, func() { r.limit("unlimited") })
	figure(t, "file, disk full: lost, so it was full", lost, "above 0", lost > 0)
}

// collecting is a collector that keeps the records of the events that it gets.
type collecting struct {
	otlp.UnimplementedLogsServiceServer
	mu      sync.Mutex
	got     listed
	fail    error
	refuses atomic.Bool // as if a right was revoked
}

func (c *collecting) Export(_ context.Context, q *otlp.ExportLogsServiceRequest) (*otlp.ExportLogsServiceResponse, error) {
	if c.refuses.Load() {
		return nil, grpcstatus.Error(codes.PermissionDenied, "the right was revoked")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range q.ResourceLogs {
		for _, scope := range resource.ScopeLogs {
			for _, one := range scope.LogRecords {
				var x decision.Record
				if err := json.Unmarshal([]byte(one.Body.GetStringValue()), &x); err != nil {
					c.fail = err
				}
				c.got = append(c.got, x)
			}
		}
	}
	return &otlp.ExportLogsServiceResponse{}, nil
}

// collector continues with an OpenTelemetry collector that vanishes now and then, and that refuses what is sent for a while.
func (r *recording) collector(t *testing.T, channel []string) {
	r.repeats = true
	defer func() { r.repeats = false }()
	c, server := &collecting{}, grpc.NewServer()
	otlp.RegisterLogsServiceServer(server, c)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }() // it stops at the end of the test
	t.Cleanup(server.Stop)
	way := newLink(t, l.Addr().String())
	r.turn(t, channel, "otlp+insecure://"+way.address, func() (decision.Reader, func() error, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.Clone(c.got), func() error { return nil }, c.fail
	})
	r.phase("collector vanishes", nil, func() {
		time.Sleep(lasting(20 * time.Second))
		way.gone.Add(1)
	}, nil)
	lost := r.phase("collector refuses", func() { c.refuses.Store(true) }, nil, func() { c.refuses.Store(false) })
	figure(t, "collector refuses: lost, so it refused", lost, "above 0", lost > 0)
}

// postgres continues with a database. While reviews are answered, its server is restarted, vanishes, becomes a standby, and has no room, and a
// right is revoked.
func (r *recording) postgres(t *testing.T, channel []string) {
	database := devcluster.NewPostgres(t)
	if database == nil {
		tell(t, "PostgreSQL", "NOT RUN: it needs Debian's package postgresql")
		return
	}
	run := func(statements ...string) func() {
		return func() {
			if err := database.Run(statements...); err != nil {
				t.Error(err)
			}
		}
	}
	run("CREATE ROLE recorder LOGIN", "GRANT CREATE ON SCHEMA public TO recorder")()
	const socket = ".s.PGSQL.5432"
	front, err := os.MkdirTemp("", "pg") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(front) })
	way := newLinkAt(t, filepath.Join(front, socket), filepath.Join(database.Directory(), socket))
	r.turn(t, channel, "postgres://recorder@/postgres?host="+front, func() (decision.Reader, func() error, error) {
		s, err := store.OpenReader(database.Address)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	})
	r.phase("PostgreSQL restarted", nil, func() {
		time.Sleep(lasting(10 * time.Second))
		if err := database.Stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(lasting(5 * time.Second))
		database.Start()
	}, nil)
	r.phase("PostgreSQL vanishes", nil, func() {
		time.Sleep(lasting(10 * time.Second))
		way.gone.Add(1)
	}, nil)
	standby := func(on string) func() {
		return run("SET default_transaction_read_only = off", "ALTER SYSTEM SET default_transaction_read_only = "+on, "SELECT pg_reload_conf()")
	}
	lost := r.phase("PostgreSQL is a standby", func() {
		standby("on")()
		r.keeper.Kill()
		if err := r.keep(); err != nil {
			t.Error(err)
		}
	}, nil, standby("off"))
	figure(t, "PostgreSQL is a standby: lost, so it was one", lost, "above 0", lost > 0)
	lost = r.phase("PostgreSQL revokes a right", run("REVOKE INSERT ON ephor_decisions FROM recorder"), nil, run("GRANT INSERT ON ephor_decisions TO recorder"))
	figure(t, "PostgreSQL revokes a right: lost, so it was revoked", lost, "above 0", lost > 0)
	// A server without room answers with this error to what needs more.
	lost = r.phase("PostgreSQL, disk full", run(
		"CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no space left on device' USING ERRCODE = 'disk_full'; END $$",
		"CREATE TRIGGER no_room BEFORE INSERT ON ephor_decisions FOR EACH STATEMENT EXECUTE FUNCTION no_room()",
	), nil, run("DROP TRIGGER no_room ON ephor_decisions"))
	figure(t, "PostgreSQL, disk full: lost, so it was full", lost, "above 0", lost > 0)
}
