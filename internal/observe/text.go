package observe

import (
	"io"
	"math"
	"strconv"
	"strings"
)

// pageWriter writes a page in pieces, so that a large page need not fit into memory.
type pageWriter struct {
	w   io.Writer
	b   []byte
	err error
}

// flush writes the buffer if it is large, or if all is set.
func (p *pageWriter) flush(all bool) {
	if len(p.b) < 64<<10 && !all {
		return
	}
	if p.err == nil {
		_, p.err = p.w.Write(p.b)
	}
	p.b = p.b[:0]
}

// family writes a family in the text format of Prometheus, version 0.0.4.
func (p *pageWriter) family(f *family) {
	st, rows := f.rows()
	if st.off || len(rows) == 0 {
		return
	}
	columns := f.columns(st.keep)
	p.series(f, f.Exposed(), columns, rows)
	if st.bare && f.Exposed() != f.Name {
		p.series(f, f.Name, columns, rows)
	}
}

func (p *pageWriter) series(f *family, name string, columns []column, rows []row) {
	p.b = append(append(append(append(p.b, "# HELP "...), name...), ' '), f.Help...)
	p.b = append(append(append(append(p.b, "\n# TYPE "...), name...), ' '), f.Kind.String()...)
	p.b = append(p.b, '\n')
	var values []string
	for _, r := range rows {
		values = split(values, r.key)
		b := p.b
		switch f.Kind {
		case Counter:
			b = appendLabels(append(b, name...), columns, values, "")
			b = strconv.AppendUint(b, r.count.Load(), 10)
		case Gauge:
			b = appendLabels(append(b, name...), columns, values, "")
			b = appendFloat(b, math.Float64frombits(r.sum.Load()))
		case Histogram:
			// The buckets are read one by one, so the count is their sum: it must equal the last bucket.
			total := uint64(0)
			for i := range r.buckets {
				total += r.buckets[i].Load()
				bound := "+Inf"
				if i < len(r.bounds) {
					bound = string(appendFloat(nil, r.bounds[i]))
				}
				b = appendLabels(append(append(b, name...), "_bucket"...), columns, values, bound)
				b = append(strconv.AppendUint(b, total, 10), '\n')
			}
			b = appendLabels(append(append(b, name...), "_sum"...), columns, values, "")
			b = append(appendFloat(b, math.Float64frombits(r.sum.Load())), '\n')
			b = appendLabels(append(append(b, name...), "_count"...), columns, values, "")
			b = strconv.AppendUint(b, total, 10)
		}
		p.b = append(b, '\n')
		p.flush(false)
	}
}

// appendLabels appends the labels and a space. bound is the value of le, for a bucket of a histogram.
func appendLabels(b []byte, columns []column, values []string, bound string) []byte {
	b = append(b, '{')
	for i, c := range columns {
		if i > 0 {
			b = append(b, ',')
		}
		v := c.constant
		if c.at >= 0 {
			v = values[c.at]
		}
		b = append(append(b, c.name...), '=', '"')
		b = appendEscaped(b, v)
		b = append(b, '"')
	}
	if bound != "" {
		b = append(append(append(b, `,le="`...), bound...), '"')
	}
	return append(b, '}', ' ')
}

func appendEscaped(b []byte, v string) []byte {
	if !strings.ContainsAny(v, "\\\"\n") {
		return append(b, v...)
	}
	for i := range len(v) {
		switch c := v[i]; c {
		case '\\', '"':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		default:
			b = append(b, c)
		}
	}
	return b
}

func appendFloat(b []byte, v float64) []byte { return strconv.AppendFloat(b, v, 'g', -1, 64) }
