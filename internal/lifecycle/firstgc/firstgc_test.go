package firstgc_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/lifecycle/firstgc"
)

// child is the environment variable that selects the work of a child process. Tests use separate processes, since the collector's settings
// apply to a whole process.
const child = "EPHOR_FIRSTGC"

func TestMain(m *testing.M) {
	switch os.Getenv(child) {
	case "collect":
		first := gogc()
		runtime.GC()
		for end := time.Now().Add(time.Minute); gogc() == first && first == 400 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		fmt.Println(first, gogc())
	case "end":
		first := gogc()
		firstgc.End()
		ended := gogc()
		debug.SetGCPercent(300)
		runtime.GC()
		runtime.GC()
		firstgc.End()
		fmt.Println(first, ended, gogc())
	case "fill":
		if filled = make([][]byte, 7<<10); filled != nil {
			for i := range filled {
				filled[i] = make([]byte, 1<<10)
			}
		}
	default:
		os.Exit(m.Run())
	}
}

var filled [][]byte

// BenchmarkStart measures a process that fills its heap with 7 MB, as the packages that Ephor links do, with the delay and without it.
func BenchmarkStart(b *testing.B) {
	for name, env := range map[string]string{"delayed": "OTHER=", "own pace": "GOGC=100"} {
		b.Run(name, func(b *testing.B) {
			var used time.Duration
			for b.Loop() {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(without(os.Environ(), "GOGC", "GOMEMLIMIT"), child+"=fill", env)
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatal(err, string(out))
				}
				used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			}
			b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

func gogc() uint64 {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func TestFirstCollection(t *testing.T) {
	for _, c := range []struct{ name, do, env, want string }{
		{"the first collection restores Go's own pace", "collect", "", "400 100"},
		{"GOGC wins", "collect", "GOGC=50", "50 50"},
		{"GOMEMLIMIT wins", "collect", "GOMEMLIMIT=1GiB", "100 100"},
		{"after End, the first collection changes nothing", "end", "", "400 100 300"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(without(os.Environ(), "GOGC", "GOMEMLIMIT"), child+"="+c.do)
			if c.env != "" {
				cmd.Env = append(cmd.Env, c.env)
			}
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
				t.Errorf("percentages: %s (%v), want %s", got, err, c.want)
			}
		})
	}
}

func without(env []string, names ...string) (kept []string) {
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if name != names[0] && name != names[1] {
			kept = append(kept, e)
		}
	}
	return kept
}

// A larger import would delay the initialization until after packages that fill the heap.
func TestImports(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "firstgc.go", nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	small := `"os" "runtime" "runtime/debug" "sync"`
	for _, i := range file.Imports {
		if !strings.Contains(small, i.Path.Value) {
			t.Errorf("the package imports %s: it may import only %s", i.Path.Value, small)
		}
	}
}
