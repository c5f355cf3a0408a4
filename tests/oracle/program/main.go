// Command oracle says on which nodes kube-scheduler could place a pod, and how it scores them. It runs the Filter
// and Score plugins of the default profile of kube-scheduler on snapshots of a cluster, without a cluster.
//
// Each line of stdin is a JSON object: a question with all objects of a snapshot. Each line of stdout is the
// answer to one question, in the same order.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// question is one snapshot and the pod to be placed, as "namespace/name".
type question struct {
	Objects []json.RawMessage `json:"objects"`
	Pod     string            `json:"pod"`
	// Score asks for the scores of the feasible nodes, with these settings.
	Score *settings `json:"score"`
	// Reserve asks for the claims of the pod as they are written before a bind to the first feasible node.
	Reserve bool `json:"reserve"`
}

// answer has each node either in Feasible or in Refused. Error says why the question has no answer.
type answer struct {
	Feasible []string           `json:"feasible,omitempty"`
	Refused  map[string]refusal `json:"refused,omitempty"`
	// Scores has the score of each feasible node by plugin, if the question asks for it.
	Scores map[string]map[string]int64 `json:"scores,omitempty"`
	// Claims has the status of each claim of the pod, if the question asks for it.
	Claims map[string]json.RawMessage `json:"claims,omitempty"`
	Error  string                     `json:"error,omitempty"`
}

// refusal is the first plugin that refuses a node, and its reason.
type refusal struct {
	Plugin string `json:"plugin"`
	Reason string `json:"reason"`
}

func main() {
	klog.SetLogger(logr.Discard())
	metrics.Register()
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// serve answers until the input ends.
func serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	answers := json.NewEncoder(out)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := answers.Encode(reply(line)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func reply(line []byte) answer {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: err.Error()}
	}
	found, err := readCluster(ctx, asked)
	if err != nil {
		return answer{Error: err.Error()}
	}
	given, err := filter(ctx, found, asked)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return given
}
