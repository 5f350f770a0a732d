package lifecycle

import (
	"os"
	"testing"
)

func TestContainerMemory(t *testing.T) {
	const v2, v1 = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
	for _, c := range []struct {
		files map[string]string
		want  int64
	}{
		{nil, 0},
		{map[string]string{v2: "max\n"}, 0},
		{map[string]string{v2: "402653184\n"}, 402653184},
		{map[string]string{v1: "134217728\n"}, 134217728},
		{map[string]string{v1: "9223372036854771712\n"}, 0},
		{map[string]string{v2: "nonsense"}, 0},
	} {
		got := containerMemory(func(name string) ([]byte, error) {
			if text, ok := c.files[name]; ok {
				return []byte(text), nil
			}
			return nil, os.ErrNotExist
		})
		if got != c.want {
			t.Errorf("%v: %d, want %d", c.files, got, c.want)
		}
	}
}
