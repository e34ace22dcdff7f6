package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
)

// hookFlags say who is told how a run ended.
type hookFlags struct {
	OnSuccess, OnFailure, OnWarning []string
	MetricsFile                     string
}

func (h *hookFlags) settings() []*setting {
	const what = "run this shell command, or POST to this URL, when the backup "
	return []*setting{
		list(&h.OnSuccess, "on-success", "CMD|URL", what+"is complete; may repeat"),
		list(&h.OnFailure, "on-failure", "CMD|URL", what+"is not; may repeat"),
		list(&h.OnWarning, "on-warning", "CMD|URL", what+"is complete, with warnings; may repeat"),
		text(&h.MetricsFile, "metrics-file", "FILE", "write the result for the textfile collector of Prometheus"),
	}
}

// outcome is what the world is told of a run. Hooks get it as JSON on standard input or as the body of the request, and
// the main parts as environment variables.
type outcome struct {
	Result      string   `json:"result"` // success, warning or failure
	Exit        int      `json:"exit"`
	Server      string   `json:"server"`
	Host        string   `json:"host"`
	ID          string   `json:"id"`
	Message     string   `json:"message"` // the error, or ""
	Warnings    []string `json:"warnings"`
	Started     moment   `json:"started"`
	Finished    moment   `json:"finished"`
	RawBytes    int64    `json:"raw_bytes"`
	StoredBytes int64    `json:"stored_bytes"`
}

// Results of a run.
const (
	resultSuccess = "success"
	resultWarning = "warning"
	resultFailure = "failure"
)

// outcomeOf describes the end of a run; m is nil if there is no backup.
func outcomeOf(err error, m *catalog.Manifest, started, finished time.Time) outcome {
	code, _ := judge(err)
	o := outcome{Result: resultFailure, Exit: code, Started: moment(started), Finished: moment(finished), Warnings: []string{}}
	switch code {
	case exitDone:
		o.Result = resultSuccess
	case exitWarnings:
		o.Result = resultWarning
	}
	if err != nil && o.Result == resultFailure {
		o.Message = err.Error()
	}
	if m != nil {
		o.ID, o.RawBytes, o.StoredBytes = m.ID, m.RawBytes, m.StoredBytes
		o.Warnings = append(o.Warnings, m.Warnings...)
	}
	return o
}

// hookTimeout bounds each hook: a dead alarm must not keep the next backup from starting.
const hookTimeout = 30 * time.Second

// call tells everyone who wants to know. It works also after ctx has ended. What went wrong is returned, one error a
// hook, and changes nothing about the backup.
func (h *hookFlags) call(ctx context.Context, env *Env, o outcome) []error {
	ctx = context.WithoutCancel(ctx)
	var failed []error
	for _, target := range map[string][]string{
		resultSuccess: h.OnSuccess, resultWarning: h.OnWarning, resultFailure: h.OnFailure,
	}[o.Result] {
		if err := callOne(ctx, env, target, o); err != nil {
			failed = append(failed, err)
		}
	}
	if h.MetricsFile != "" {
		if err := writeMetrics(h.MetricsFile, o); err != nil {
			failed = append(failed, fmt.Errorf("write metrics file: %w", err))
		}
	}
	return failed
}

func callOne(ctx context.Context, env *Env, target string, o outcome) error {
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	if u, err := url.Parse(target); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return post(ctx, u, o)
	}
	return shell(ctx, env, target, o)
}

// post sends the outcome to a URL. Errors name its host only: such URLs are often secrets.
func post(ctx context.Context, u *url.URL, o outcome) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("call the hook at %s: not a usable address", u.Host)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		if inner, ok := err.(*url.Error); ok {
			err = inner.Err
		}
		return fmt.Errorf("call the hook at %s: %w", u.Host, err)
	}
	defer response.Body.Close()
	io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20)) // so that the connection ends well; its content says nothing
	if response.StatusCode >= 300 {
		return fmt.Errorf("call the hook at %s: it answered %s", u.Host, response.Status)
	}
	return nil
}

// shell runs a command. What it says is shown only if it fails.
func shell(ctx context.Context, env *Env, command string, o outcome) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Env = append(withoutSecrets(env.Environ),
		"MBWRAP_RESULT="+o.Result, "MBWRAP_EXIT="+strconv.Itoa(o.Exit), "MBWRAP_ID="+o.ID,
		"MBWRAP_MESSAGE="+o.Message, "MBWRAP_RAW_BYTES="+strconv.FormatInt(o.RawBytes, 10),
		"MBWRAP_STORED_BYTES="+strconv.FormatInt(o.StoredBytes, 10), "MBWRAP_SERVER="+o.Server)
	cmd.Stdin = bytes.NewReader(body)
	cmd.WaitDelay = time.Second
	said, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	text := strings.TrimSpace(string(said[max(0, len(said)-500):]))
	if text != "" {
		return fmt.Errorf("hook %q: %w: it said %q", command, err, text)
	}
	return fmt.Errorf("hook %q: %w", command, err)
}

// withoutSecrets leaves out the variables that hold secrets of ours.
func withoutSecrets(environ []string) []string {
	var kept []string
	for _, v := range environ {
		if !strings.HasPrefix(v, "MBWRAP_PASSWORD=") {
			kept = append(kept, v)
		}
	}
	return kept
}

// lastSuccess is the metric that must survive a failed run.
const lastSuccess = "mbwrap_last_success_timestamp_seconds"

// writeMetrics replaces the file in one step, as the textfile collector demands.
func writeMetrics(name string, o outcome) error {
	label := fmt.Sprintf("{server=%q}", o.Server)
	success := previousMetric(name, lastSuccess+label)
	if o.Result != resultFailure {
		success = strconv.FormatInt(time.Time(o.Finished).Unix(), 10)
	}
	var b strings.Builder
	gauge := func(metric, help, value string) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n%s%s %s\n", metric, help, metric, metric, label, value)
	}
	gauge("mbwrap_last_run_timestamp_seconds", "When the last backup run ended.",
		strconv.FormatInt(time.Time(o.Finished).Unix(), 10))
	gauge("mbwrap_last_run_exit_code", "Exit code of the last backup run.", strconv.Itoa(o.Exit))
	gauge("mbwrap_last_run_duration_seconds", "How long the last backup run took.",
		strconv.FormatFloat(time.Time(o.Finished).Sub(time.Time(o.Started)).Seconds(), 'f', 3, 64))
	if success != "" {
		gauge(lastSuccess, "When the last good backup was complete.", success)
	}
	if o.Result != resultFailure {
		gauge("mbwrap_raw_bytes", "Size of the last good backup before compression.", strconv.FormatInt(o.RawBytes, 10))
		gauge("mbwrap_stored_bytes", "Size of the last good backup as stored.", strconv.FormatInt(o.StoredBytes, 10))
	}
	temp, err := os.CreateTemp(filepath.Dir(name), ".mbwrap-metrics-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // gone already when all went well
	_, err = temp.WriteString(b.String())
	if cherr := temp.Chmod(0o644); err == nil {
		err = cherr
	}
	if cerr := temp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), name)
}

// previousMetric returns the value that a metric has in an older file, "" if none.
func previousMetric(name, metric string) string {
	data, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, metric+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
