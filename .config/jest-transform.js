import { transform } from 'esbuild'

// Jest takes its transforms from a default export. It waits for them wherever it runs ES modules.
export default {
  async processAsync(source, path) {
    const options = { loader: 'ts', format: 'esm', target: 'es2023', sourcemap: 'inline', sourcefile: path }
    return { code: (await transform(source, options)).code }
  }
}
