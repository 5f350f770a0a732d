// Package observe provides metrics (Prometheus and OTLP), traces (OTLP) and logs of the processes. It wraps functions
// and interfaces of the observed packages, so that these packages do not depend on the libraries:
//
//	m := observe.NewMetrics(observe.Options{Version: "v1.2.3"})
//	config.Wrap(m.RoundTripper(observe.KubeClient))  // every request to the API server is counted
//	eval, root := tracer.Eval(engine.Eval), tracer.World(root)
//	m.Evaluated(&outcome)                               // counts kyverno_policy_results and the time of each rule
//	http.Handle("/metrics", m.Handler())
//
// A nil *Metrics and a nil *Tracer are valid and do nothing, so callers need not check whether they are enabled.
//
// One table (declared.go) lists the instruments, with Kyverno's names and labels. Counting only adds to a number that
// was looked up before; the libraries of Prometheus and OpenTelemetry are used only to export the numbers. The number
// of series of each instrument is limited; observations beyond that are counted in series whose open labels are
// "other".
//
// It does not decide which results become events (package event) or reports, and it stores no samples.
//
// Floor 6: it may import the floors below, and nothing that serves.
package observe
