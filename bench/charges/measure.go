package charges

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/cel/compiler"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/world"
)

// Language is one of the two languages.
type Language string

// The languages.
const (
	CEL      Language = "CEL"
	JMESPath Language = "JMESPath"
)

// Row is a use of one function, operator, macro or matcher.
type Row struct {
	Language Language
	Name     string
	// Expression reads members of the object by the names in inputs.
	Expression string
	Sizes      [3]int
	kind       env.Kind
	fails      string // the evaluation ends in an error that contains this
	// of replaces Expression for what is part of no expression: it returns a call that returns its charge in steps.
	of func(n int) (func() (int64, error), error)
}

// evaluation is a prepared evaluation of a row at one size.
type evaluation struct {
	run func() (steps int64, err error)
}

// prepare compiles the expression of a row.
func (r *Row) prepare(n int) (*evaluation, error) {
	if r.of != nil {
		run, err := r.of(n)
		return &evaluation{run}, err
	}
	object := document(r.Expression, n)
	w := &world.World{Clock: fixedClock{}, Rand: rand.New(rand.NewSource(1)), Names: noNames{}.LookupHost} //nolint:gosec // not for secrets
	if r.Language == JMESPath {
		x, err := jmespath.Compile(r.Expression)
		if err != nil {
			return nil, err
		}
		env := &jmespath.Env{Meter: &budget.Meter{}, World: *w}
		return &evaluation{func() (int64, error) {
			env.Meter.Reset(context.Background(), budget.DefaultSteps, budget.DefaultBytes)
			_, err := x.Search(env, object)
			steps, bytes := env.Meter.Used()
			return steps + bytes/8, err
		}}, nil
	}
	c := compiler.New(env.Declarations{Kind: r.kind})
	if r.kind == env.Native {
		if err := c.Mutations(); err != nil {
			return nil, err
		}
	}
	x, err := c.Compile(r.Expression, typecheck.Any)
	if err != nil {
		return nil, err
	}
	in := &run.Input{Object: object, Source: source{}, Access: env.Access{World: w}}
	return &evaluation{func() (int64, error) {
		e := c.Variables().Evaluate(context.Background(), in, price.Budget)
		_, err := e.Value(x)
		return e.Spent(), err
	}}, nil
}

// Charged returns the charge of a row at one size in steps, and whether the call was refused for it.
func (r *Row) Charged(n int) (steps int64, refused bool, err error) {
	e, err := r.prepare(n)
	if err != nil {
		return 0, false, err
	}
	steps, err = e.run()
	refused = errors.Is(err, budget.ErrExhausted) || errors.Is(err, price.ErrBudget)
	return steps, refused, nil
}

// fixedClock is the clock of the rows.
type fixedClock struct{}

func (fixedClock) Now() time.Time { return time.Unix(1<<30, 0) }

// noNames resolves no names.
type noNames struct{}

func (noNames) LookupHost(context.Context, world.Host) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
}

// source has the variables that are not the object.
type source struct{}

func (source) Request() (any, error)       { return map[string]any{}, nil }
func (source) Namespace() (any, error)     { return nil, nil }
func (source) Authorizer() *env.Authorizer { return &env.Authorizer{Access: everything{}} }

// everything allows everything.
type everything struct{}

func (everything) Allowed(context.Context, world.AccessRequest) (bool, string, error) {
	return true, "", nil
}

// Line is the measurement of a row at one size.
type Line struct {
	Row     *Row
	Size    int
	Steps   int64
	Refused bool
	Time    time.Duration // of one evaluation
	Ratio   float64       // the time of a step, divided by that of the reference loop
	Err     error
}

// reference is the loop with which rows are compared: plain comparisons of numbers. A loop of CEL is charged much more than it takes.
var reference = Row{Language: JMESPath, Expression: "length(list[?@ >= `0`])"}

// Measure measures all rows whose names contain a text. It returns the time of a step in the reference loop, too, in nanoseconds.
func Measure(containing string) (lines []Line, step float64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var steps []float64
	for i := range Rows {
		if i%50 == 0 {
			l := reference.measure(10_000)
			steps = append(steps, float64(l.Time)/float64(l.Steps))
		}
		r := &Rows[i]
		if !strings.Contains(r.Name, containing) {
			continue
		}
		for _, n := range r.Sizes {
			lines = append(lines, r.measure(n))
		}
	}
	slices.Sort(steps)
	step = steps[len(steps)/2]
	for i := range lines {
		if l := &lines[i]; l.Err == nil {
			l.Ratio = float64(l.Time) / float64(max(l.Steps, 1)) / step
		}
	}
	return lines, step
}

// measure takes the shortest of several rounds.
func (r *Row) measure(n int) Line {
	l := Line{Row: r, Size: n}
	e, err := r.prepare(n)
	if err != nil {
		l.Err = err
		return l
	}
	l.Steps, l.Refused, l.Err = 0, false, nil
	steps, err := e.run()
	l.Steps = steps
	switch {
	case errors.Is(err, budget.ErrExhausted) || errors.Is(err, price.ErrBudget):
		l.Refused = true
	case err != nil && r.fails == "":
		l.Err = err
		return l
	}
	const rounds, round = 3, 3 * time.Millisecond
	best := time.Duration(math.MaxInt64)
	for range rounds {
		runtime.GC()
		for times, took := 1, time.Duration(0); took < round; times *= 2 {
			begin := threadTime()
			for range times {
				_, _ = e.run()
			}
			took = threadTime() - begin
			best = min(best, took/time.Duration(times))
		}
	}
	l.Time = best
	return l
}

// threadTime returns the processor time of the thread.
func threadTime() time.Duration {
	const thread = 3 // CLOCK_THREAD_CPUTIME_ID
	var t syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, thread, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// String returns the line of a table.
func (l Line) String() string {
	if l.Err != nil {
		return fmt.Sprintf("%-8s %-28s %8d  %v", l.Row.Language, l.Row.Name, l.Size, l.Err)
	}
	note := ""
	if l.Refused {
		note = " refused"
	}
	return fmt.Sprintf("%-8s %-28s %8d %10d steps %12s %7.2f%s", l.Row.Language, l.Row.Name, l.Size, l.Steps, l.Time.Round(10*time.Nanosecond), l.Ratio, note)
}

// Worse compares two lines by their ratios, the larger first.
func Worse(a, b Line) int { return cmp.Compare(b.Ratio, a.Ratio) }
