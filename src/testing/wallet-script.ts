import { WalletError, type TestWallet, type WalletInfo, type WalletRequest } from './wallet.js'

/** Part of a {@link TestWallet} that a page sees. A test may pass another implementation, such as a faulty wallet. */
export type PageWallet = Pick<TestWallet, 'info' | 'request' | 'on'>

/** Options of {@link walletScript}. */
export interface WalletScriptOptions {
  /** Milliseconds until the wallet appears, as with extensions that load late. Default 0: before the page. */
  afterMs?: number | undefined
}

/** Script for the pages of a browser under test, and the function that the script calls. */
export interface WalletScript {
  /** Name under which the page calls the function. */
  name: string
  /** Function that runs in the test and answers the page. */
  answer: (message: unknown) => Promise<unknown>
  /** Script that sets `window.ethereum` unless another wallet has set it, and announces the wallet by EIP-6963. */
  script: string
}

/**
 * Creates a script that adds a wallet to the pages of a browser under test, for Playwright or Puppeteer. The wallet
 * itself stays in the test: the page has no key, and the test can switch the account at any time.
 *
 * @example
 * const { name, answer, script } = walletScript(wallet('alice'))
 * await context.exposeFunction(name, answer)
 * await context.addInitScript(script) // Puppeteer: page.evaluateOnNewDocument(script)
 */
export function walletScript(wallet: PageWallet, { afterMs = 0 }: WalletScriptOptions = {}): WalletScript {
  const name = `didAuthWallet_${wallet.info.uuid.replaceAll('-', '')}`
  return { name, answer: createAnswer(wallet), script: createPageScript(name, wallet.info, afterMs) }
}

/** Creates the function that answers requests of pages, and notifies waiting pages of a changed account. */
function createAnswer(wallet: PageWallet): (message: unknown) => Promise<unknown> {
  const changes: string[][] = []
  let waiting: (() => void)[] = []
  wallet.on('accountsChanged', (accounts) => {
    changes.push(accounts)
    for (const wake of waiting) wake()
    waiting = []
  })
  return async (message) => {
    // Messages of `script` have this form.
    const { after, request } = message as { after?: number; request?: WalletRequest }
    if (request !== undefined) return answerRequest(wallet, request)
    if (after === undefined) return { after: changes.length }
    if (after >= changes.length) await new Promise<void>((resolve) => waiting.push(resolve))
    return { after: after + 1, accounts: changes[after] }
  }
}

/** Answers a request. Errors are returned, because a thrown error would reach the page without its code. */
async function answerRequest(wallet: PageWallet, request: WalletRequest): Promise<unknown> {
  try {
    return { result: await wallet.request(request) }
  } catch (error) {
    const { code, message } = error instanceof WalletError ? error : { code: -32603, message: String(error) }
    return { error: { code, message } }
  }
}

function createPageScript(name: string, info: WalletInfo, afterMs: number): string {
  return `(() => {
  const call = (message) => window[${JSON.stringify(name)}](message)
  const listeners = new Set()
  const provider = {
    async request({ method, params }) {
      const { result, error } = await call({ request: { method, params } })
      if (error) throw Object.assign(new Error(error.message), error)
      return result
    },
    on(event, listener) {
      if (event === 'accountsChanged') listeners.add(listener)
      return provider
    },
    removeListener(event, listener) {
      listeners.delete(listener)
      return provider
    }
  }
  const followAccounts = async () => {
    let { after } = await call({})
    for (;;) {
      const next = await call({ after })
      after = next.after
      for (const listener of listeners) listener(next.accounts)
    }
  }
  const detail = Object.freeze({ info: Object.freeze(${JSON.stringify(info)}), provider })
  const announce = () => window.dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail }))
  const appear = () => {
    window.ethereum ??= provider
    window.addEventListener('eip6963:requestProvider', announce)
    announce()
  }
  followAccounts().catch(() => {})
  if (${JSON.stringify(afterMs)}) setTimeout(appear, ${JSON.stringify(afterMs)})
  else appear()
})()`
}
