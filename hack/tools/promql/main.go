// Command promql runs queries in PromQL's own engine, over pages from a controller's /metrics, and requires that each
// has data. It is a separate module, because it requires Prometheus.
//
//	promql -pages admission=first.txt,second.txt -pages reports=testdata/reports-1.txt,testdata/reports-2.txt \
//	  charts/ephor/dashboards/ephor.json charts/ephor/alerts/ephor.yaml docs/operating/metrics.md
//
// The pages of a job count as scraped 45 seconds apart, the last one 5 seconds ago. Queries are the expressions in
// Grafana dashboards (.json), in rule files (.yaml) and in blocks marked promql in documents (.md), one in each
// paragraph. An alert that does not fire has no data by its nature, so in a comparison the compared expressions must
// have data.
//
// It ends with exit code 1 and a line for each query without data, or that cannot be parsed.
//
// With -serve it is a Prometheus for tests: it scrapes the pages that are named as job=URL, and answers /api/v1/query.
//
//	promql -serve 127.0.0.1:9090 admission=http://127.0.0.1:8000/metrics
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// seeds are queries from dashboards that people migrate from Kyverno. They must return more than zero.
var seeds = []string{
	`sum(increase(kyverno_policy_results{policy_namespace="default", rule_result="fail"}[24h])) by (rule_type)`,
	`rate(kyverno_policy_results{resource_kind="Pod", rule_execution_cause="admission_request"}[1m])*60`,
	`count by (policy_name) (increase(kyverno_policy_results{rule_execution_cause="background_scan"}[2h]))`,
}

// now is the time of the queries.
var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func main() {
	var pages list
	flag.Var(&pages, "pages", "job=page,page: what a job showed, in order of time; may be given several times")
	address := flag.String("serve", "", "answer queries on this address, over what is scraped from the arguments (job=URL)")
	every := flag.Duration("every", time.Second, "time between scrapes")
	flag.Parse()
	if *address != "" {
		fmt.Fprintln(os.Stderr, serve(*address, *every, flag.Args()))
		os.Exit(1)
	}
	if err := run(pages, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

func run(pages, files []string) error {
	store := &store{}
	for _, p := range pages {
		job, names, ok := strings.Cut(p, "=")
		if !ok {
			return fmt.Errorf("-pages %s: want job=page,page", p)
		}
		scraped := strings.Split(names, ",")
		for i, name := range scraped {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			at := now.Add(-5*time.Second - time.Duration(len(scraped)-1-i)*45*time.Second)
			if err := store.add(job, text, at); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	e := &engine{store: store, engine: newEngine()}
	var errs []error
	asked := 0
	for _, q := range seeds {
		asked++
		if largest, err := e.query(q); err != nil || largest <= 0 {
			errs = append(errs, fmt.Errorf("%s: the largest value is %v, want more than 0: %v", q, largest, err))
		}
	}
	for _, file := range files {
		queries, err := queriesOf(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		}
		if err == nil && len(queries) == 0 {
			errs = append(errs, fmt.Errorf("%s: there are no queries", file))
		}
		for _, q := range queries {
			asked++
			if _, err := e.query(q); err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", file, q, err))
			}
		}
		fmt.Printf("%-40s %3d queries\n", file, len(queries))
	}
	fmt.Printf("%d queries over %d series: %d without data\n", asked, len(store.series), len(errs))
	return errors.Join(errs...)
}

// newEngine creates PromQL's engine as Prometheus does.
func newEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
		Parser: parser.NewParser(parser.Options{}),
	})
}

type engine struct {
	store  *store
	engine *promql.Engine
}

var errNoData = errors.New("no data")

// query evaluates a query and returns its largest value. No data, and only NaN values, are errors.
func (e *engine) query(query string) (largest float64, err error) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return 0, err
	}
	ask, err := e.engine.NewInstantQuery(context.Background(), e.store, nil, unfiltered(expr).String(), now)
	if err != nil {
		return 0, err
	}
	defer ask.Close()
	result := ask.Exec(context.Background())
	if result.Err != nil {
		return 0, result.Err
	}
	largest = math.Inf(-1)
	switch v := result.Value.(type) {
	case promql.Vector:
		for _, s := range v {
			largest = math.Max(largest, orLeast(s.F))
		}
	case promql.Scalar:
		largest = v.V
	case promql.Matrix:
		for _, s := range v {
			for _, p := range s.Floats {
				largest = math.Max(largest, orLeast(p.F))
			}
		}
	}
	if math.IsInf(largest, -1) {
		return 0, errNoData
	}
	return largest, nil
}

func orLeast(v float64) float64 {
	if math.IsNaN(v) {
		return math.Inf(-1)
	}
	return v
}

// unfiltered returns the expression in which each comparison returns 0 or 1 for everything that is compared.
func unfiltered(expr parser.Expr) parser.Expr {
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if b, ok := n.(*parser.BinaryExpr); ok && b.Op.IsComparisonOperator() {
			b.ReturnBool = true
		}
		return nil
	})
	return expr
}
