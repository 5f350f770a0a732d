package observe

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// Handler serves all metrics in the text format, together with those of the Go runtime and of the process. The format is
// the only one: in OpenMetrics the two names of kyverno_policy_results would be one.
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
			z := compressors.Get().(*gzip.Writer)
			defer compressors.Put(z)
			z.Reset(w)
			defer z.Close()
			to = z
		}
		_ = m.write(to, gathered) // the scraper has gone
	}))
}

var compressors = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level exists
	return z
}}

// write writes our families and the gathered ones in order of name. Each family is written by itself, so that a scrape
// needs no memory for the whole page.
func (m *Metrics) write(w io.Writer, gathered []*dto.MetricFamily) error {
	var buf []byte
	for _, f := range m.ordered {
		for len(gathered) > 0 && gathered[0].GetName() < f.Name {
			if _, err := expfmt.MetricFamilyToText(w, gathered[0]); err != nil {
				return err
			}
			gathered = gathered[1:]
		}
		buf = f.appendText(buf[:0])
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	for _, g := range gathered {
		if _, err := expfmt.MetricFamilyToText(w, g); err != nil {
			return err
		}
	}
	return nil
}
