// Browsers start no web workers for pages opened from a folder. There, a hidden frame runs the
// search script instead; served pages keep their worker.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      // What the script posts goes to whoever holds this worker.
      this.inside.postMessage = (data) => this.emit(this, data);
      const script = frame.contentDocument.createElement("script");
      script.src = url;
      this.ready = new Promise((resolve) => (script.onload = resolve));
      frame.contentDocument.body.append(script);
    }
    postMessage(data) {
      this.ready.then(() => this.emit(this.inside, data));
    }
    emit(target, data) {
      const event = new MessageEvent("message", { data });
      target.dispatchEvent(event);
      if (target === this && this.onmessage) this.onmessage(event);
    }
    terminate() {}
  };
  window.Worker = window.IFrameWorker;
}
