package seal

import "testing"

// BenchmarkSum measures the sum of a request's path, with a Summer and with the key itself.
func BenchmarkSum(b *testing.B) {
	secret := make([]byte, KeySize)
	k, err := NewKey(secret)
	if err != nil {
		b.Fatal(err)
	}
	s := k.Summer()
	for name, sum := range map[string]func(string, ...string) [32]byte{"summer": s.Sum, "key": k.Sum} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sum("d", "epoch", "/validate/fail")
			}
		})
	}
}
