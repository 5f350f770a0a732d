// Package observe reports what the processes do: metrics (Prometheus and OTLP), traces (OTLP) and logs. It
// wraps what it watches, so that the watched packages know none of these libraries:
//
//	m := observe.NewMetrics(observe.Options{Version: "v1.2.3"})
//	config.Wrap(m.RoundTripper(observe.KubeClient))  // every request to the API server is counted
//	eval, root := tracer.Eval(engine.Eval), tracer.World(root)
//	m.Evaluated(&outcome)                               // kyverno_policy_results and the time that each rule took
//	http.Handle("/metrics", m.Handler())
//
// A nil *Metrics and a nil *Tracer are valid and do nothing, so that callers need not check whether they are enabled.
//
// The instruments stand in one table (declared.go) with names and labels of the policy language. Counting is
// an addition to a number that was looked up before: the libraries of Prometheus and OpenTelemetry only carry the
// numbers out. Each instrument has a fixed number of series at most; what comes after is counted in series whose open
// labels are "other".
//
// It does not decide what is worth an event (package event) or a report, and it keeps no samples.
//
// Floor 6: it may import the floors below, and nothing that serves.
package observe
