package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// auditPolicy makes the API server log the requests of the service accounts of a namespace, and no others.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:%s"]
- level: None
`

const auditLog = "audit.log"

// Audit is the audit log of an API server, with the requests of our service accounts.
type Audit struct {
	file   string
	offset int64
}

// Asked is a request in the audit log.
type Asked struct {
	Verb, UserAgent, RequestURI string
	User                        struct{ Username string }
	ObjectRef                   struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	ResponseStatus              struct{ Code int }
}

// What returns the verb with the resource, such as "create updaterequests".
func (a Asked) What() string {
	what := a.Verb + " " + a.ObjectRef.Resource
	if a.ObjectRef.Resource == "" {
		what = a.Verb + " " + a.RequestURI
	}
	if a.ObjectRef.Subresource != "" {
		what += "/" + a.ObjectRef.Subresource
	}
	return what
}

// NewAudit writes an audit policy into dir for the service accounts of a namespace. Start the API server with the flags.
func NewAudit(dir, namespace string) (a *Audit, apiServerFlags []string, err error) {
	policy, log := filepath.Join(dir, "audit-policy.yaml"), filepath.Join(dir, auditLog)
	err = os.WriteFile(policy, fmt.Appendf(nil, auditPolicy, namespace), 0o600)
	return &Audit{file: log}, []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log, "--audit-log-maxsize=10000"}, err
}

// OpenAudit returns the log that NewAudit began in dir, without the requests so far.
func OpenAudit(dir string) (*Audit, error) {
	a := &Audit{file: filepath.Join(dir, auditLog)}
	info, err := os.Stat(a.file)
	if err == nil {
		a.offset = info.Size()
	}
	return a, err
}

// Next returns the requests of our processes that were answered since the last call.
func (a *Audit) Next() (out []Asked, err error) {
	f, err := os.Open(a.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(a.offset, io.SeekStart); err != nil {
		return nil, err
	}
	lines := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return out, nil // an incomplete line is read in the next call
		}
		if err != nil {
			return out, err
		}
		a.offset += int64(len(line))
		var e Asked
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return out, fmt.Errorf("%s: %w", a.file, err)
		}
		if strings.HasPrefix(e.UserAgent, "ephor") {
			out = append(out, e)
		}
	}
}
