# go build, go test and go vet of a module of packages: a threaded build tool, compilers and linkers as its children, no network.
export GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local GOTELEMETRY=off CGO_ENABLED=0

setup() {
    mkdir -p "$SHARED"/app/{tree,words,cmd/tool}
    cd "$SHARED/app"
    printf 'module example.org/app\n\ngo 1.19\n' >go.mod
    cat >tree/tree.go <<'EOF'
// Package tree is an ordered map.
package tree

type Ordered interface{ ~int | ~string }

type node[K Ordered, V any] struct {
	key         K
	value       V
	left, right *node[K, V]
}

type Map[K Ordered, V any] struct {
	root *node[K, V]
	size int
}

func (m *Map[K, V]) Put(key K, value V) {
	at := &m.root
	for *at != nil {
		switch {
		case key < (*at).key:
			at = &(*at).left
		case key > (*at).key:
			at = &(*at).right
		default:
			(*at).value = value
			return
		}
	}
	*at = &node[K, V]{key: key, value: value}
	m.size++
}

func (m *Map[K, V]) Len() int { return m.size }

func (m *Map[K, V]) Each(visit func(K, V)) { each(m.root, visit) }

func each[K Ordered, V any](n *node[K, V], visit func(K, V)) {
	if n != nil {
		each(n.left, visit)
		visit(n.key, n.value)
		each(n.right, visit)
	}
}
EOF
    cat >tree/tree_test.go <<'EOF'
package tree

import (
	"math/rand"
	"sort"
	"testing"
)

func TestOrder(t *testing.T) {
	for _, size := range []int{0, 1, 10, 1000} {
		size := size
		t.Run("size", func(t *testing.T) {
			t.Parallel()
			var m Map[int, string]
			random := rand.New(rand.NewSource(int64(size)))
			for i := 0; i < size; i++ {
				m.Put(random.Intn(size), "x")
			}
			var keys []int
			m.Each(func(k int, _ string) { keys = append(keys, k) })
			if len(keys) != m.Len() || !sort.IntsAreSorted(keys) {
				t.Fatal(keys)
			}
		})
	}
}

func FuzzPut(f *testing.F) {
	f.Add("a", "b")
	f.Fuzz(func(t *testing.T, a, b string) {
		var m Map[string, int]
		m.Put(a, 1)
		m.Put(b, 2)
		if (a == b) != (m.Len() == 1) {
			t.Fail()
		}
	})
}

func BenchmarkPut(b *testing.B) {
	var m Map[int, int]
	for i := 0; i < b.N; i++ {
		m.Put(i%64, i)
	}
}
EOF
    cat >words/words.go <<'EOF'
// Package words counts.
package words

import (
	"bufio"
	"io"
	"strings"
	"sync"

	"example.org/app/tree"
)

func Count(readers ...io.Reader) *tree.Map[string, int] {
	var lock sync.Mutex
	var group sync.WaitGroup
	sums := map[string]int{}
	for _, reader := range readers {
		group.Add(1)
		go func(reader io.Reader) {
			defer group.Done()
			scanner := bufio.NewScanner(reader)
			scanner.Split(bufio.ScanWords)
			for scanner.Scan() {
				lock.Lock()
				sums[strings.ToLower(scanner.Text())]++
				lock.Unlock()
			}
		}(reader)
	}
	group.Wait()
	var result tree.Map[string, int]
	for word, count := range sums {
		result.Put(word, count)
	}
	return &result
}
EOF
    cat >words/words_test.go <<'EOF'
package words_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"example.org/app/words"
)

func ExampleCount() {
	m := words.Count(strings.NewReader("a b A"), strings.NewReader("b c"))
	m.Each(func(word string, count int) { fmt.Println(word, count) })
	// Output:
	// a 2
	// b 2
	// c 1
}

func TestPanic(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	var none []io.Reader
	words.Count(none[3])
}

func TestOnPurpose(t *testing.T) {
	if n := words.Count(strings.NewReader("x y")).Len(); n != 3 {
		t.Errorf("%d words", n)
	}
}
EOF
    cat >cmd/tool/main.go <<'EOF'
package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"example.org/app/words"
)

func main() {
	counts := map[string]int{}
	words.Count(strings.NewReader(strings.Join(os.Args[1:], " "))).Each(func(word string, count int) { counts[word] = count })
	packed := gzip.NewWriter(os.Stdout)
	json.NewEncoder(packed).Encode(counts)
	packed.Close()
	fmt.Fprintln(os.Stderr, len(counts))
	os.Exit(len(counts))
}
EOF
    printf 'package app\n\nimport "fmt"\n\nfunc Wrong(n int) string { return fmt.Sprintf("%%s", n) }\n' >vet.go
    # The standard library is built once, natively; the module in every run.
    cp -r "$SHARED/app" "$SHARED/warm" && cd "$SHARED/warm"
    rm tree/tree_test.go
    export GOCACHE=$SHARED/cache
    go build -trimpath ./...
    go vet ./... >/dev/null 2>&1 || true
    go test ./... >/dev/null 2>&1 || true
    rm -r "$SHARED/warm"
}

run() {
    export GOCACHE=$PWD/cache GOTMPDIR=$PWD/tmp
    mkdir tmp
    cp -r "$SHARED/app" app
    cp -r "$SHARED/cache" cache
    cd app
    go version
    go list -deps ./... | wc -l
    # Another one than in the cache.
    sed -i 's/^type node/type leaf struct{}\n\n&/' tree/tree.go
    go build -trimpath -p 2 -o tool ./cmd/tool
    ./tool a b c a B >packed || echo "tool: $?"
    gzip -d <packed
    go vet ./... 2>&1 || echo "vet: $?"
    go test ./tree ./words 2>&1 | sed -E 's/[0-9.]+s\)?$//'
    go test -count=1 -run Order -bench Put -benchtime 1000x ./tree | grep -cE '^(BenchmarkPut|PASS)'
    echo 'func x() { return 1 }' >>tree/tree.go
    go build ./... 2>&1 || echo "refused: $?"
    cd .. && rm -rf cache tmp
}
