package soak

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// parts are what `make soak PARTS="..."` selects, in the order in which they run.
var parts = []struct{ name, test string }{
	{"load", "TestPodsThroughTheAPIServer"},
	{"load-cel", "TestPodsWithPoliciesInCEL"},
	{"reviews", "TestReviews"},
	{"budget", "TestBudgetOfTenants"},
	{"tenant", "TestTenant"},
	{"kills", "TestKills"},
	{"rolling", "TestRollingRestart"},
	{"apiserver", "TestAPIServerRestarts"},
	{"etcd", "TestEtcdStops"},
	{"webhooks", "TestWebhooksByHand"},
	{"clock", "TestClockPassesRenewal"},
	{"certificates", "TestCertificateStorm"},
	{"lease", "TestLeaseStolenAgainAndAgain"},
	{"failopen", "TestFailOpen"},
	{"uninstall", "TestUninstallInEveryOrder"},
	{"malformed", "TestMalformedReviews"},
	{"slow", "TestSlowConnections"},
	{"thousand", "TestThousandPolicies"},
	{"thousand-cel", "TestThousandPoliciesInCEL"},
	{"triggers", "TestTriggersOutliveAdmission"},
	{"work", "TestWorkOutlivesFaults"},
	{"proxy", "TestControllersThroughTroubles"},
	{"share", "TestShares"},
	{"cleanup", "TestCleanupShares"},
	{"images", "TestImagesThroughFaults"},
	{"decisions", "TestDecisionsThroughFaults"},
}

// short reduces all durations and numbers of requests to a tenth, to try the parts out.
var short = os.Getenv("EPHOR_SOAK_SHORT") != ""

func lasting(d time.Duration) time.Duration {
	if short {
		return d / 10
	}
	return d
}

func times(n int) int {
	if short {
		return n / 10
	}
	return n
}

func TestMain(m *testing.M) {
	if os.Getenv("EPHOR_SOAK") == "" {
		fmt.Println("soak: not run; `make soak` does")
		return
	}
	var tests []string
	for _, name := range strings.Fields(os.Getenv("EPHOR_SOAK")) {
		if name == "all" {
			tests = nil
			break
		}
		i := slices.IndexFunc(parts, func(p struct{ name, test string }) bool { return p.name == name })
		if i < 0 {
			fmt.Fprintf(os.Stderr, "soak: there is no part %q; there are", name)
			for _, p := range parts {
				fmt.Fprint(os.Stderr, " ", p.name)
			}
			fmt.Fprintln(os.Stderr)
			os.Exit(1)
		}
		tests = append(tests, "^"+parts[i].test+"$")
	}
	if err := flag.Set("test.run", strings.Join(tests, "|")); err != nil {
		panic(err)
	}
	code := m.Run()
	printTable(code == 0)
	os.Exit(code)
}

// row is one figure with its target.
type row struct{ part, name, got, target, verdict string }

var table []row

// figure records a figure with its target, and fails the test if it is missed.
func figure(t testing.TB, name string, got any, target string, ok bool) {
	t.Helper()
	verdict := "ok"
	if !ok {
		verdict = "MISS"
		t.Fail()
	}
	note(t, name, got, target, verdict)
}

// tell records a figure without a target.
func tell(t testing.TB, name string, got any) {
	t.Helper()
	note(t, name, got, "", "")
}

func note(t testing.TB, name string, got any, target, verdict string) {
	test, _, _ := strings.Cut(t.Name(), "/")
	part := test
	for _, p := range parts {
		if p.test == test {
			part = p.name
		}
	}
	r := row{part, name, fmt.Sprint(got), target, verdict}
	table = append(table, r)
	fmt.Println("soak:", r)
}

func (r row) String() string {
	return strings.TrimRight(fmt.Sprintf("%-12s %-62s %12s   %-18s %s", r.part, r.name, r.got, r.target, r.verdict), " ")
}

// printTable prints all figures again, together.
func printTable(passed bool) {
	if len(table) == 0 {
		return
	}
	fmt.Println("\nsoak:", row{"part", "figure", "value", "target", ""})
	missed := 0
	for _, r := range table {
		fmt.Println("soak:", r)
		if r.verdict == "MISS" {
			missed++
		}
	}
	verdict := "ok"
	if !passed {
		verdict = "FAILED: a figure missed its target, or a test failed above"
	}
	fmt.Printf("soak: %d figures, %d missed: %s\n", len(table), missed, verdict)
}

func median[T cmp.Ordered](v []T) T {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}
