import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Client library as a script, which .config/compile-for-tests.js compiles from the sources. */
const script = readFileSync(join(process.env.TEST_COMPILED ?? '', 'client-script.js'), 'utf8')

/** Seconds by which a page's clock is set ahead, so that every access token of 600 s has expired. */
export const PAST_THE_TOKEN = 10_000

/** Page with a `client`, in any browser and by any driver. */
export interface ClientPage {
  evaluate(expression: string): Promise<unknown>
  reload(): Promise<unknown>
}

/** Tabs of one profile, each with a separate client, like the pages of an application. */
export interface ClientTabs<Tab extends ClientPage = ClientPage> {
  /** Opens a tab of the service's origin with `client`. */
  tab(): Promise<Tab>
  /** Sets the clocks of all clients ahead, so that their tokens expire. */
  skip(seconds?: number): Promise<void>
  /** Returns the number of refresh requests so far. */
  refreshes(): number
}

/** Creates the script that adds `client` to a page. It stores its session in `localStorage` or in cookies. */
export function createClientScript(mode: string, deviceKey: boolean): string {
  return `${script};
    globalThis.skipped = 0
    globalThis.ended = []
    const clock = { nowSeconds: () => performance.now() / 1000 + skipped }
    const storage = didAuth.local()
    const onSignedOut = ({ reason }) => ended.push(reason)
    globalThis.client = new didAuth.DidAuthClient({ url: location.origin, mode: '${mode}', deviceKey: ${deviceKey},
      clock, storage, onSignedOut })`
}

/** Sends `GET /me` with the client of a tab. Returns the status, or the code or message of the error. */
export function askMe(page: ClientPage): Promise<unknown> {
  return page.evaluate(`client.fetch('/me').then(({ status }) => status, ({ code, message }) => code ?? message)`)
}

/** Returns the reasons for which sessions ended in a tab. */
export async function readEndReasons(page: ClientPage): Promise<string[]> {
  return (await page.evaluate('ended')) as string[]
}
