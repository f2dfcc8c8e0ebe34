"""The paper, reproduced: tables and figures on real networks. Imports saft; saft never imports this."""
