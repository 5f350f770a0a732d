package ephemeral

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sigs.k8s.io/controller-runtime/pkg/client"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	reportsv1 "ephor.invalid/ephor/api/reports/v1"
	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/seal"
)

// SealAnnotation holds the proof that a controller of Ephor wrote the report in this form: the time, in seconds since 1970, a
// space, and a seal of package seal.
const SealAnnotation = names.Domain + "report-seal"

// sealDomain is the domain of the seals.
const sealDomain = "ephemeral-report"

// Tolerance is the maximum difference between the clocks of the controllers and of the API server.
const Tolerance = 2 * time.Minute

// The reasons for rejecting a report. They are values of a metric's label.
var (
	// ErrUnsealed: the report has no seal, as reports of another program.
	ErrUnsealed = errors.New("no seal")
	// ErrOtherKey: the report was sealed with a key that no longer exists, or never existed.
	ErrOtherKey = errors.New("unknown key")
	// ErrForged: the report was changed after it was sealed.
	ErrForged = errors.New("forged")
	// ErrReplayed means that the object was created or deleted after it was sealed: another client wrote an old report again.
	ErrReplayed = errors.New("replayed")
)

// Keys are the keys with which reports are sealed. A keystore.Cached implements Keys.
type Keys interface {
	Ring(context.Context) (*seal.Keyring, error)
	// Fresh is Ring after another read, which is useful if a seal names an unknown key.
	Fresh(context.Context) (*seal.Keyring, error)
}

// sealReport seals the report at the time now.
func sealReport(ring *seal.Keyring, o client.Object, now time.Time) {
	at := strconv.FormatInt(now.Unix(), 10)
	notes := maps.Clone(o.GetAnnotations())
	if notes == nil {
		notes = map[string]string{}
	}
	notes[SealAnnotation] = at + " " + ring.Seal(sealDomain, claim(o, at)...)
	o.SetAnnotations(notes)
}

// Check returns nil if one of our controllers wrote the report in this form. The report must be an EphemeralReport or
// ClusterEphemeralReport that was read from the API server. Otherwise Check returns one of the errors above with doubt set, or
// the error that prevented the check.
func Check(ctx context.Context, keys Keys, o client.Object) (doubt bool, err error) {
	at, text, ok := strings.Cut(o.GetAnnotations()[SealAnnotation], " ")
	if !ok {
		return true, ErrUnsealed
	}
	ring, err := keys.Ring(ctx)
	if err != nil {
		return false, err
	}
	parts := claim(o, at)
	err = ring.Check(text, sealDomain, parts...)
	if errors.Is(err, seal.ErrUnknownKey) {
		if ring, err = keys.Fresh(ctx); err != nil {
			return false, err
		}
		if err = ring.Check(text, sealDomain, parts...); errors.Is(err, seal.ErrUnknownKey) {
			return true, ErrOtherKey
		}
	}
	if err != nil {
		return true, ErrForged
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return true, ErrForged // a sealed report has a number here
	}
	latest := time.Unix(seconds, 0).Add(Tolerance)
	if gone := o.GetDeletionTimestamp(); latest.Before(o.GetCreationTimestamp().Time) || gone != nil && latest.Before(gone.Time) {
		return true, ErrReplayed
	}
	return false, nil
}

// claim returns all fields of a report that are read.
func claim(o client.Object, at string) []string {
	kind, spec := "ClusterEphemeralReport", (*reportsv1.EphemeralReportSpec)(nil)
	switch o := o.(type) {
	case *reportsv1.EphemeralReport:
		kind, spec = "EphemeralReport", &o.Spec
	case *reportsv1.ClusterEphemeralReport:
		spec = &o.Spec
	}
	r, plural := Subject(o)
	return []string{
		kind, o.GetNamespace(), o.GetName(), o.GetLabels()[SourceLabel], at,
		r.APIVersion, r.Kind, r.Name, r.UID, plural, digest(spec.Results),
	}
}

// digest returns a digest of the results. The other fields of results about several resources are not read, and not covered.
func digest(results []policyreport.Result) string {
	size := 0
	for i := range results {
		size += typicalResult + len(results[i].Message)
	}
	d := digester(make([]byte, 0, size))
	d.number(int64(len(results)))
	var keys []string
	for i := range results {
		r := &results[i]
		for _, t := range [...]string{r.Source, r.Policy, r.Rule, r.Message, string(r.Result), r.Category, string(r.Severity)} {
			d.text(t)
		}
		scored := int64(0)
		if r.Scored {
			scored = 1
		}
		for _, n := range [...]int64{scored, r.Timestamp.Seconds, int64(r.Timestamp.Nanos), int64(len(r.Properties))} {
			d.number(n)
		}
		keys = slices.AppendSeq(keys[:0], maps.Keys(r.Properties))
		slices.Sort(keys)
		for _, key := range keys {
			d.text(key)
			d.text(r.Properties[key])
		}
	}
	sum := sha256.Sum256(d)
	return hex.EncodeToString(sum[:])
}

// typicalResult is the approximate size of a result in a digester, without its message, in bytes.
const typicalResult = 200

// digester collects numbers and texts; each text is preceded by its length, which separates adjacent texts.
type digester []byte

func (d *digester) text(t string) {
	d.number(int64(len(t)))
	*d = append(*d, t...)
}

func (d *digester) number(n int64) { *d = append(strconv.AppendInt(*d, n, 10), ':') }

// readable replaces invalid UTF-8, as JSON does: the results are sealed in the form in which they will be read.
func readable(results []policyreport.Result) {
	for i := range results {
		r := &results[i]
		for _, text := range []*string{&r.Source, &r.Policy, &r.Rule, &r.Message, &r.Category} {
			*text = utf8Only(*text)
		}
		for key, text := range r.Properties {
			if utf8.ValidString(key) && utf8.ValidString(text) {
				continue
			}
			valid := make(map[string]string, len(r.Properties))
			for k, v := range r.Properties {
				valid[utf8Only(k)] = utf8Only(v)
			}
			r.Properties = valid
			break
		}
	}
}

func utf8Only(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
