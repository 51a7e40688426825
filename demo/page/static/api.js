// Talking to the demo: snapshots come by server-sent events, deeds go as POST with the page's token.

const token = document.querySelector('meta[name="page-token"]').content;

export async function post(path, as, body) {
  try {
    const response = await fetch(`${path}?as=${encodeURIComponent(as)}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Page-Token": token },
      body: JSON.stringify(body),
    });
    return response.ok ? (await response.json()).failure : await response.text();
  } catch {
    return "The demo does not answer. Is it still running?";
  }
}

/** Calls `onSnapshot` at once and after every change; gives a function that ends it. */
export function listen(as, onSnapshot, onLost) {
  const source = new EventSource(`/events?as=${encodeURIComponent(as)}&token=${encodeURIComponent(token)}`);
  source.onmessage = (event) => onSnapshot(JSON.parse(event.data));
  source.onerror = () => onLost();
  return () => source.close();
}
