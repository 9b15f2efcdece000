/** A request with its answer, as it is shown. */
export interface Exchange {
  method: string
  url: URL
  requestHeaders: [name: string, value: string][]
  requestBody: string
  /** Undefined while it is under way, or when there was none. */
  answer?: { status: number; statusText: string; headers: [name: string, value: string][]; body: string }
  /** Why there was no answer. */
  failure?: string
  milliseconds?: number
}

/** A signature that a wallet was asked for. It goes over no wire, and explains what follows. */
export interface Signing {
  text: string
  signature?: string
  failure?: string
}

/** Where exchanges are shown. */
export interface WireView {
  showExchange(exchange: Exchange): () => void
  showSigning(signing: Signing): () => void
}

/**
 * `fetch` that shows each exchange. Showing changes no request and no answer.
 *
 * @param onAnswer - called with each exchange once its answer is there
 */
export function watchedFetch(view: WireView, onAnswer: (exchange: Exchange) => void): typeof fetch {
  return async (input, init) => {
    const request = new Request(input, init)
    const exchange: Exchange = {
      method: request.method,
      url: new URL(request.url),
      requestHeaders: [...request.headers],
      requestBody: await request.clone().text()
    }
    const update = view.showExchange(exchange)
    const startedAt = performance.now()
    try {
      const response = await fetch(request)
      exchange.milliseconds = performance.now() - startedAt
      const { status, statusText } = response
      // Read at once: the client ends the request when it has read its answer, and with it this copy.
      const body = await readBody(response.clone())
      exchange.answer = { status, statusText, headers: [...response.headers], body }
      update()
      onAnswer(exchange)
      return response
    } catch (error) {
      exchange.milliseconds = performance.now() - startedAt
      exchange.failure = error instanceof Error ? error.message : String(error)
      update()
      throw error
    }
  }
}

async function readBody(response: Response): Promise<string> {
  try {
    return await response.text()
  } catch {
    return '(the answer broke off)'
  }
}

/** A signing function that shows what it signs. */
export function watchedSigning(
  view: WireView,
  sign: (text: string) => Promise<string>
): (text: string) => Promise<string> {
  return async (text) => {
    const signing: Signing = { text }
    const update = view.showSigning(signing)
    try {
      signing.signature = await sign(text)
      return signing.signature
    } catch (error) {
      signing.failure = error instanceof Error ? error.message : 'The wallet refused.'
      throw error
    } finally {
      update()
    }
  }
}
