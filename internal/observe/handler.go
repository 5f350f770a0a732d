package observe

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// Handler serves all metrics in the text format, together with those of the Go runtime and the process. It supports no
// other format: in OpenMetrics, the two names of kyverno_policy_results would be the same.
func (m *Metrics) Handler() http.Handler {
	runtime := prometheus.NewRegistry()
	runtime.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.InstrumentMetricHandler(runtime, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gathered, err := runtime.Gather()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
		to := io.Writer(w)
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
			if err != nil {
				panic(err) // the level is valid
			}
			defer z.Close()
			to = z
		}
		_ = m.write(to, gathered) // an error means that the scraper has disconnected
	}))
}

// write writes our families and the gathered ones, sorted by name.
func (m *Metrics) write(w io.Writer, gathered []*dto.MetricFamily) error {
	page := &pageWriter{w: w}
	theirs := func(until string) error {
		page.flush(true)
		for len(gathered) > 0 && (until == "" || gathered[0].GetName() < until) {
			if _, err := expfmt.MetricFamilyToText(w, gathered[0]); err != nil {
				return err
			}
			gathered = gathered[1:]
		}
		return page.err
	}
	for _, f := range m.ordered {
		if err := theirs(f.Name); err != nil {
			return err
		}
		page.family(f)
	}
	return theirs("")
}
